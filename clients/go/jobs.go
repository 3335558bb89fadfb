package memoryd

import (
	"context"
	"iter"

	"github.com/memoryd/memoryd/clients/go/memorydpb"
)

// Jobs iterates over the session's jobs of a state, by block and then in the order in which they
// were made. JOB_STATE_UNSPECIFIED: all.
func (s *Session) Jobs(ctx context.Context, state memorydpb.JobState) iter.Seq2[*Job, error] {
	request := &memorydpb.ListJobsRequest{SessionId: s.id, State: state, PageSize: largestPage}
	return paged(ctx, s.client, request, memorydpb.JobService_ListJobs_FullMethodName,
		(*memorydpb.ListJobsResponse).GetJobs, (*memorydpb.ListJobsResponse).GetNextPageToken,
		func(r *memorydpb.ListJobsRequest, token string) { r.PageToken = token })
}

// Job returns a job, or [ErrJobNotFound].
func (s *Session) Job(ctx context.Context, jobID string) (*Job, error) {
	reply, err := invoke[memorydpb.GetJobResponse](ctx, s.client,
		&memorydpb.GetJobRequest{SessionId: s.id, JobId: jobID},
		call{method: memorydpb.JobService_GetJob_FullMethodName})
	return reply.GetJob(), err
}

// RetryJob feeds the messages of a failed or cancelled job to its block again, by a new job, and
// returns that. It is sent once, since each call makes a job.
func (s *Session) RetryJob(ctx context.Context, jobID string) (*Job, error) {
	reply, err := invoke[memorydpb.RetryJobResponse](ctx, s.client,
		&memorydpb.RetryJobRequest{SessionId: s.id, JobId: jobID},
		call{method: memorydpb.JobService_RetryJob_FullMethodName, once: true})
	return reply.GetJob(), err
}

// CancelJob gives up an open job and returns it. It is sent once, since a job can be cancelled once.
func (s *Session) CancelJob(ctx context.Context, jobID string) (*Job, error) {
	reply, err := invoke[memorydpb.CancelJobResponse](ctx, s.client,
		&memorydpb.CancelJobRequest{SessionId: s.id, JobId: jobID},
		call{method: memorydpb.JobService_CancelJob_FullMethodName, once: true})
	return reply.GetJob(), err
}

// Usage returns the model usage of the tenant since the server started.
func (c *Client) Usage(ctx context.Context) (*memorydpb.GetUsageResponse, error) {
	return invoke[memorydpb.GetUsageResponse](ctx, c, &memorydpb.GetUsageRequest{},
		call{method: memorydpb.JobService_GetUsage_FullMethodName})
}

// ServerInfo returns the server's version, store and limits, and who the caller is.
func (c *Client) ServerInfo(ctx context.Context) (*memorydpb.GetServerInfoResponse, error) {
	return invoke[memorydpb.GetServerInfoResponse](ctx, c, &memorydpb.GetServerInfoRequest{},
		call{method: memorydpb.ServerService_GetServerInfo_FullMethodName})
}
