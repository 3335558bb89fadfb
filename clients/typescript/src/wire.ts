// The messages of memoryd.v1, generated from its protos.

export * from "./gen/memoryd/v1/block_service_pb.js";
export * from "./gen/memoryd/v1/filter_pb.js";
export * from "./gen/memoryd/v1/item_service_pb.js";
export * from "./gen/memoryd/v1/job_service_pb.js";
export * from "./gen/memoryd/v1/memory_pb.js";
export * from "./gen/memoryd/v1/memory_service_pb.js";
export * from "./gen/memoryd/v1/server_service_pb.js";
export * from "./gen/memoryd/v1/session_service_pb.js";
export * from "./gen/memoryd/v1/worker_service_pb.js";
