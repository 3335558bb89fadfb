package memoryd

// Reason is why memoryd refused or failed a call: a constant in capitals. It is an error of its own,
// so that errors.Is(err, memoryd.ErrSessionNotFound) finds it. A server may send others.
type Reason string

// Error returns the reason.
func (r Reason) Error() string { return "memoryd: " + string(r) }

// The request cannot be done as it is.
const (
	// ErrInvalidField: a field is malformed or out of range; Error.Field names it.
	ErrInvalidField = Reason("INVALID_FIELD")
	// ErrMalformedRequest: the server cannot read the request.
	ErrMalformedRequest = Reason("MALFORMED_REQUEST")
	// ErrRequestTooLarge: the request exceeds the server's max_request_mib.
	ErrRequestTooLarge = Reason("REQUEST_TOO_LARGE")
	// ErrMetadataTooLarge: the call has too much gRPC metadata.
	ErrMetadataTooLarge = Reason("METADATA_TOO_LARGE")
	// ErrReplyTooLarge: the reply would exceed 64 MiB; ask for less.
	ErrReplyTooLarge = Reason("REPLY_TOO_LARGE")
	// ErrFilterLimit: the filter has too many conditions.
	ErrFilterLimit = Reason("FILTER_LIMIT")
	// ErrPositionOutOfRange: the session has no message at this position yet.
	ErrPositionOutOfRange = Reason("POSITION_OUT_OF_RANGE")
	// ErrVectorSize: the vector has another size than those of the namespace.
	ErrVectorSize = Reason("VECTOR_SIZE")
	// ErrToolPair: a tool call and its result would be separated.
	ErrToolPair = Reason("TOOL_PAIR")
	// ErrImportCutShort: the import ended without its end.
	ErrImportCutShort = Reason("IMPORT_CUT_SHORT")
)

// There is no such thing, or there is one already.
const (
	// ErrSessionNotFound: there is no such session.
	ErrSessionNotFound = Reason("SESSION_NOT_FOUND")
	// ErrMessageNotFound: there is no such message.
	ErrMessageNotFound = Reason("MESSAGE_NOT_FOUND")
	// ErrContentNotFound: there is no such content.
	ErrContentNotFound = Reason("CONTENT_NOT_FOUND")
	// ErrBlockNotFound: the session has no such block.
	ErrBlockNotFound = Reason("BLOCK_NOT_FOUND")
	// ErrFactNotFound: the block knows no such fact.
	ErrFactNotFound = Reason("FACT_NOT_FOUND")
	// ErrChangeNotFound: the block's history has no such change.
	ErrChangeNotFound = Reason("CHANGE_NOT_FOUND")
	// ErrJobNotFound: there is no such job.
	ErrJobNotFound = Reason("JOB_NOT_FOUND")
	// ErrNamespaceNotFound: the namespace has neither items nor a configuration.
	ErrNamespaceNotFound = Reason("NAMESPACE_NOT_FOUND")
	// ErrModelNotFound: the server has no such model or embedder.
	ErrModelNotFound = Reason("MODEL_NOT_FOUND")
	// ErrSessionExists: a session of this id exists.
	ErrSessionExists = Reason("SESSION_EXISTS")
	// ErrMessageIDExists: a message or content of this id exists.
	ErrMessageIDExists = Reason("MESSAGE_ID_EXISTS")
	// ErrFactExists: the block knows the fact.
	ErrFactExists = Reason("FACT_EXISTS")
	// ErrNamespaceExists: a namespace at this path exists.
	ErrNamespaceExists = Reason("NAMESPACE_EXISTS")
)

// Something else came first.
const (
	// ErrRevisionMismatch: the session is not at the expected revision.
	ErrRevisionMismatch = Reason("REVISION_MISMATCH")
	// ErrVersionMismatch: the item is not at the expected version.
	ErrVersionMismatch = Reason("VERSION_MISMATCH")
	// ErrSessionReplaced: a Set or Reset came between; begin again.
	ErrSessionReplaced = Reason("SESSION_REPLACED")
	// ErrNamespaceReplaced: the namespace was deleted meanwhile; begin again.
	ErrNamespaceReplaced = Reason("NAMESPACE_REPLACED")
	// ErrMessageChanged: other callers kept changing the message; retry.
	ErrMessageChanged = Reason("MESSAGE_CHANGED")
	// ErrContentChanged: other callers kept changing the contents; retry.
	ErrContentChanged = Reason("CONTENT_CHANGED")
	// ErrConfigMismatch: the session or namespace has another configuration.
	ErrConfigMismatch = Reason("CONFIG_MISMATCH")
	// ErrConfigFixed: the field is fixed once the session has messages.
	ErrConfigFixed = Reason("CONFIG_FIXED")
	// ErrNotTheUsers: the session belongs to somebody else; see [User.Context].
	ErrNotTheUsers = Reason("NOT_THE_USERS")
	// ErrRequestIDReused: the request id was used for a different request.
	ErrRequestIDReused = Reason("REQUEST_ID_REUSED")
	// ErrRequestForgotten: the request id's result was erased; nothing is stored.
	ErrRequestForgotten = Reason("REQUEST_FORGOTTEN")
	// ErrStillWritten: sessions of the subject are still being written.
	ErrStillWritten = Reason("STILL_WRITTEN")
)

// The state of a block or job forbids it.
const (
	// ErrBlockFull: the block holds as many facts as it may.
	ErrBlockFull = Reason("BLOCK_FULL")
	// ErrBlockHasNoEntries: the block is not of kind `vector`.
	ErrBlockHasNoEntries = Reason("BLOCK_HAS_NO_ENTRIES")
	// ErrBlockKeepsNoHistory: the block's changes cannot be undone.
	ErrBlockKeepsNoHistory = Reason("BLOCK_KEEPS_NO_HISTORY")
	// ErrFactTrusted: the caller is trusted less than the fact.
	ErrFactTrusted = Reason("FACT_TRUSTED")
	// ErrJobNotFailed: the job has neither failed nor been cancelled.
	ErrJobNotFailed = Reason("JOB_NOT_FAILED")
	// ErrJobNotFirst: an earlier job of the block comes first.
	ErrJobNotFirst = Reason("JOB_NOT_FIRST")
	// ErrJobObsolete: the job's messages are no longer there.
	ErrJobObsolete = Reason("JOB_OBSOLETE")
	// ErrActiveBytes: the active messages exceed the server's active_mib.
	ErrActiveBytes = Reason("ACTIVE_BYTES")
	// ErrSessionTooLarge: the session is too large to copy within the deadline.
	ErrSessionTooLarge = Reason("SESSION_TOO_LARGE")
	// ErrSubjectTooLarge: the subject has too much to count within the deadline.
	ErrSubjectTooLarge = Reason("SUBJECT_TOO_LARGE")
	// ErrNamespaceTooLarge: the namespace is too large to copy.
	ErrNamespaceTooLarge = Reason("NAMESPACE_TOO_LARGE")
	// ErrStateTooLarge: a worker's state exceeds 1 MiB.
	ErrStateTooLarge = Reason("STATE_TOO_LARGE")
)

// The server refuses the call. Error.RetryAfter may say when to come again.
const (
	// ErrQueueFull: too many calls wait for the store.
	ErrQueueFull = Reason("QUEUE_FULL")
	// ErrTenantRate: the tenant calls too often.
	ErrTenantRate = Reason("TENANT_RATE")
	// ErrTenantCallsInFlight: the tenant has too many calls under way.
	ErrTenantCallsInFlight = Reason("TENANT_CALLS_IN_FLIGHT")
	// ErrTenantWatches: the tenant watches too many sessions.
	ErrTenantWatches = Reason("TENANT_WATCHES")
	// ErrQuotaExceeded: the tenant would store more than it may.
	ErrQuotaExceeded = Reason("QUOTA_EXCEEDED")
	// ErrMemoryShort: the server is short of memory.
	ErrMemoryShort = Reason("MEMORY_SHORT")
	// ErrServerBusy: too many large requests wait.
	ErrServerBusy = Reason("SERVER_BUSY")
	// ErrResourceExhausted: the store has no room.
	ErrResourceExhausted = Reason("RESOURCE_EXHAUSTED")
	// ErrModelBudget: the tenant's models are used up for today.
	ErrModelBudget = Reason("MODEL_BUDGET")
)

// The server is away, or the outcome is unknown.
const (
	// ErrStoreUnavailable: the store cannot be reached; nothing was stored.
	ErrStoreUnavailable = Reason("STORE_UNAVAILABLE")
	// ErrDraining: the server is shutting down; nothing was started.
	ErrDraining = Reason("DRAINING")
	// ErrOutcomeUnknown: a write may be stored or not.
	ErrOutcomeUnknown = Reason("OUTCOME_UNKNOWN")
	// ErrRequestStalled: the request came too slowly; nothing was stored.
	ErrRequestStalled = Reason("REQUEST_STALLED")
)

// The caller may not.
const (
	// ErrTokenTooLarge: the token exceeds 16 KiB.
	ErrTokenTooLarge = Reason("TOKEN_TOO_LARGE")
	// ErrRightMissing: the credential lacks the right.
	ErrRightMissing = Reason("RIGHT_MISSING")
	// ErrCredentialsDisagree: token and certificate differ in tenant or subject.
	ErrCredentialsDisagree = Reason("CREDENTIALS_DISAGREE")
	// ErrSubjectNotGranted: the credential is of another subject.
	ErrSubjectNotGranted = Reason("SUBJECT_NOT_GRANTED")
	// ErrRoleNotGranted: the credential may not write messages of this role.
	ErrRoleNotGranted = Reason("ROLE_NOT_GRANTED")
	// ErrConfigNotGranted: the credential may not change blocks.
	ErrConfigNotGranted = Reason("CONFIG_NOT_GRANTED")
	// ErrImportNotGranted: the credential may not import.
	ErrImportNotGranted = Reason("IMPORT_NOT_GRANTED")
	// ErrWorkerNotGranted: the credential may not attach workers.
	ErrWorkerNotGranted = Reason("WORKER_NOT_GRANTED")
)

// Of workers.
const (
	// ErrWorkerProtocol: the worker broke the protocol.
	ErrWorkerProtocol = Reason("WORKER_PROTOCOL")
	// ErrWorkerGone: the worker left before it answered.
	ErrWorkerGone = Reason("WORKER_GONE")
	// ErrTooManyWorkers: too many workers are attached.
	ErrTooManyWorkers = Reason("TOO_MANY_WORKERS")
	// ErrHelloMissing: the worker said nothing within ten seconds.
	ErrHelloMissing = Reason("HELLO_MISSING")
)
