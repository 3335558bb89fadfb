// The statements about jobs that are no part of a commit.
#ifndef MEMORYD_CORE_STORAGE_POSTGRES_JOB_QUERIES_H_
#define MEMORYD_CORE_STORAGE_POSTGRES_JOB_QUERIES_H_

#include "core/storage/postgres/query_connection.h"
#include "core/storage/postgres/row_codec.h"

namespace memoryd {

// The database's clock when the statement began. now() is stable: a distributed PostgreSQL takes it
// where it refuses clock_timestamp().
#define MEMORYD_NOW_US "(extract(epoch FROM now()) * 1000000)::bigint"

// By the index of ready jobs, in its order.
inline constexpr Query kClaimableJobs{
    "claimable_jobs",
    "SELECT j.tenant, j.session, j.generation, j.block, j.number, j.due, j.lease, j.lease_until "
    "FROM memoryd_jobs j JOIN memoryd_blocks b ON b.tenant = j.tenant AND b.session = j.session "
    "AND b.generation = j.generation AND b.name = j.block AND b.done + 1 = j.number "
    "JOIN memoryd_sessions s ON s.tenant = j.tenant AND s.session = j.session "
    "AND s.block_generation = j.generation AND NOT s.deleted "
    "WHERE j.state = 0 AND j.ready = 1 AND j.due <= " MEMORYD_NOW_US
    " AND (j.lease = 0 OR j.lease_until <= " MEMORYD_NOW_US
    " OR ($1::boolean AND j.lease <> $2::bigint)) ORDER BY j.due LIMIT $3::bigint"};

// Of the candidates those that are still as they were seen: nobody has claimed them since, or
// prolonged or given back a lease on them.
inline constexpr Query kClaimJobs{
    "claim_jobs",
    "UPDATE memoryd_jobs j SET lease = $9::bigint, lease_until = clock.us + $10::bigint, "
    "attempts = j.attempts + 1 "
    "FROM unnest($1::text[], $2::text[], $3::bigint[], $4::text[], $5::bigint[], $6::bigint[], "
    "$7::bigint[], $8::bigint[]) "
    "AS k (tenant, session, generation, block, number, due, lease, lease_until), "
    "(SELECT " MEMORYD_NOW_US
    " AS us) AS clock WHERE j.tenant = k.tenant AND j.session = k.session "
    "AND j.generation = k.generation AND j.block = k.block AND j.number = k.number "
    "AND j.state = 0 AND j.due = k.due AND j.lease = k.lease AND j.lease_until = k.lease_until "
    "RETURNING " MEMORYD_JOB_COLUMNS};

inline constexpr Query kRenewJobs{
    "renew_jobs",
    "UPDATE memoryd_jobs j SET lease_until = clock.us + $7::bigint "
    "FROM unnest($1::text[], $2::text[], $3::bigint[], $4::text[], $5::bigint[]) "
    "AS k (tenant, session, generation, block, number), (SELECT " MEMORYD_NOW_US
    " AS us) AS clock WHERE j.tenant = k.tenant AND j.session = k.session "
    "AND j.generation = k.generation AND j.block = k.block AND j.number = k.number "
    "AND j.state = 0 AND j.lease = $6::bigint"};

inline constexpr Query kReleaseJob{
    "release_job",
    "UPDATE memoryd_jobs j SET lease = 0, lease_until = 0, due = clock.us + $7::bigint, "
    "update_us = clock.us, "
    "attempts = greatest(0, j.attempts - $12::bigint), "
    "last_error = CASE WHEN $8::bytea = '' THEN j.last_error ELSE $8::bytea END, "
    "calls = j.calls + $9::bigint, prompt_tokens = j.prompt_tokens + $10::bigint, "
    "completion_tokens = j.completion_tokens + $11::bigint "
    "FROM (SELECT " MEMORYD_NOW_US
    " AS us) AS clock WHERE j.tenant = $1 AND j.session = $2 AND j.generation = $3::bigint "
    "AND j.block = $4 AND j.number = $5::bigint AND j.state = 0 AND j.lease = $6::bigint"};

// A state below 0 is any.
inline constexpr Query kListJobs{
    "list_jobs",
    "SELECT " MEMORYD_JOB_COLUMNS
    " FROM memoryd_jobs j WHERE j.tenant = $1 AND j.session = $2 AND j.generation = $3::bigint "
    "AND (j.block, j.number) > ($4, $5::bigint) AND ($6::smallint < 0 OR j.state = $6::smallint) "
    "ORDER BY j.block, j.number LIMIT $7::bigint"};

inline constexpr Query kFindJob{
    "find_job",
    "SELECT " MEMORYD_JOB_COLUMNS
    " FROM memoryd_jobs j WHERE j.tenant = $1 AND j.session = $2 AND j.generation = $3::bigint "
    "AND j.block = $4 AND j.number = $5::bigint"};

// 0 is JobState::kOpen, 2 kFailed: the ones in the index by state.
inline constexpr Query kCountJobs{"count_jobs",
                                  "SELECT (SELECT count(*) FROM memoryd_jobs WHERE state = 0), "
                                  "(SELECT count(*) FROM memoryd_jobs WHERE state = 2), "
                                  "greatest(0, " MEMORYD_NOW_US
                                  " - (SELECT min(create_us) FROM memoryd_jobs WHERE state = 0))"};

}  // namespace memoryd

#endif  // MEMORYD_CORE_STORAGE_POSTGRES_JOB_QUERIES_H_
