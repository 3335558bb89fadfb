#include "server/http/http_port.h"

#include <fmt/format.h>

#include <cstddef>
#include <optional>
#include <string_view>
#include <utility>
#include <variant>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "core/base/error.h"
#include "server/http/accepted.h"
#include "server/http/connect_call.h"
#include "server/http/connect_codec.h"
#include "server/http/connect_message.h"
#include "server/http/get_query.h"
#include "server/http/http_reply.h"
#include "server/http/openapi/openapi.h"
#include "server/http/request_parser.h"
#include "server/http/ui/ui_answer.h"
#include "server/wire/rpc_status.h"

namespace memoryd {
namespace {

// Without its port.
std::string_view NameOf(std::string_view host) {
  if (host.starts_with('[')) return host.substr(0, host.find(']') + 1);
  return host.substr(0, host.find(':'));
}

bool IsLoopback(std::string_view host) {
  const std::string_view name = NameOf(host);
  if (name == "[::1]" || absl::EqualsIgnoreCase({name.data(), name.size()}, "localhost")) {
    return true;
  }
  return name.starts_with("127.") &&
         name.find_first_not_of("0123456789.") == std::string_view::npos;
}

HttpReply Unimplemented(int http_status, std::string_view reason, std::string_view message) {
  return Refusal(http_status, Error(absl::StatusCode::kUnimplemented, reason, message));
}

HttpReply Denied(std::string_view reason, std::string_view message) {
  return Refusal(403, Error(absl::StatusCode::kPermissionDenied, reason, message));
}

HttpReply Invalid(int http_status, std::string_view reason, std::string_view message) {
  return Refusal(http_status, Error(absl::StatusCode::kInvalidArgument, reason, message));
}

// Whether it asks for what stands at a path. What a HEAD is answered has no body.
bool IsRead(const ConnectRequest& request) {
  return request.method == "GET" || request.method == "HEAD";
}

// For probes, which name the server by whatever address they reach it at.
std::optional<HttpReply> AnswerProbe(const HttpPort& port, const ConnectRequest& request) {
  const bool asks_ready = request.target == "/readyz";
  if (!IsRead(request) || (!asks_ready && request.target != "/healthz")) return std::nullopt;
  const bool good = !asks_ready || port.is_ready();
  HttpReply answer(good ? 200 : 503);
  answer.Header("Content-Type", "text/plain").Body(good ? "ok\n" : "not ready\n");
  return answer;
}

std::optional<HttpReply> RefuseHost(const HttpPort& port, const ConnectRequest& request) {
  if (request.hosts > 1 || (request.hosts == 0 && !request.is_http_1_0)) {
    return Refusal(400, MalformedHttp("Host: must be given once"));
  }
  if (port.only_loopback_hosts && !IsLoopback(request.host)) {
    return Denied("HOST_NOT_ALLOWED",
                  "Host: without credentials the server answers only to localhost, 127.0.0.1 and "
                  "[::1]; set credentials, or call it by one of these");
  }
  return std::nullopt;
}

std::optional<HttpReply> RefuseSite(const HttpPort& port, const ConnectRequest& request) {
  const std::string own = std::string(port.with_tls ? "https://" : "http://") + request.host;
  const bool is_own = absl::EqualsIgnoreCase(request.origin, own);
  if (!request.origin.empty() && !is_own && !port.allowed_origins.contains(request.origin)) {
    return Denied("ORIGIN_NOT_ALLOWED",
                  "Origin: pages of other sites are not answered; http_allowed_origins names those "
                  "that are");
  }
  // A link or an image of another page, which says no Origin.
  if (request.origin.empty() &&
      (request.sec_fetch_site == "cross-site" || request.sec_fetch_site == "same-site")) {
    return Denied("ORIGIN_NOT_ALLOWED", "Sec-Fetch-Site: links of other sites are not followed");
  }
  return std::nullopt;
}

std::optional<HttpReply> AnswerDescription(const ConnectRequest& request) {
  if (!IsRead(request) || request.target != "/openapi.json") return std::nullopt;
  HttpReply answer(200);
  answer.Header("Content-Type", "application/json").FixedBody(kOpenApi);
  return answer;
}

// A browser asks before it sends what a page of another site wants to.
std::optional<HttpReply> AnswerPreflight(const HttpPort& port, const ConnectRequest& request) {
  if (request.method != "OPTIONS" || !port.allowed_origins.contains(request.origin)) {
    return std::nullopt;
  }
  HttpReply answer(200);
  answer.Header("Access-Control-Allow-Methods", "GET, POST")
      .Header("Access-Control-Allow-Headers",
              "Authorization, Content-Type, Content-Encoding, Accept-Encoding, "
              "Connect-Protocol-Version, Connect-Timeout-Ms, Connect-Content-Encoding, "
              "Connect-Accept-Encoding, X-Request-Id, Traceparent, Tracestate")
      .Header("Access-Control-Max-Age", "7200");
  return answer;
}

HttpReply WrongContentType(const ConnectMethod& method) {
  std::string_view allowed = "application/json, application/proto";
  std::string_view with;
  if (method.streams_requests) {
    allowed = kLinesType;
  } else if (method.streams_replies) {
    allowed = "application/connect+json, application/connect+proto, application/json";
    with = ", the last with Accept: application/x-ndjson";
  }
  return Invalid(415, "CONTENT_TYPE",
                 fmt::format("Content-Type: must be one of {}{}", allowed, with))
      .Header("Accept-Post", allowed);
}

// What the headers say of the request's compression.
std::optional<HttpReply> ReadCompression(const ConnectRequest& request, ConnectFormat& format) {
  const bool in_envelopes = format.request == Framing::kEnvelopes;
  const std::string_view encoding =
      in_envelopes ? request.connect_content_encoding : request.content_encoding;
  if (format.request == Framing::kLines && !encoding.empty() && encoding != "identity") {
    return Unimplemented(501, "COMPRESSED", "Content-Encoding: lines must not be compressed")
        .Header("Accept-Encoding", "identity");
  }
  // A stream's Content-Encoding would be of its envelopes.
  if ((!encoding.empty() && encoding != "identity" && encoding != "gzip") ||
      (in_envelopes && !request.content_encoding.empty())) {
    return Unimplemented(501, "COMPRESSED",
                         in_envelopes ? "Connect-Content-Encoding: must be gzip or identity"
                                      : "Content-Encoding: must be gzip or identity")
        .Header("Accept-Encoding", "gzip");
  }
  format.is_gzipped = encoding == "gzip";
  return std::nullopt;
}

// What the headers of a POST say of its messages.
std::optional<HttpReply> ReadFormat(const ConnectRequest& request, ConnectHead& head) {
  const ConnectMethod& method = *head.method;
  std::optional<ConnectFormat> format = FormatOf(request.content_type);
  if (format.has_value() && method.streams_replies && format->is_json &&
      format->reply == Framing::kAlone && Accepts(request.accept, kLinesType)) {
    format->reply = Framing::kLines;
  }
  if (!format.has_value() || (format->request == Framing::kLines) != method.streams_requests ||
      (format->reply != Framing::kAlone) != method.streams_replies) {
    return WrongContentType(method);
  }
  if (method.streams_replies && request.is_http_1_0) {
    return Unimplemented(505, "HTTP_VERSION", "streams need HTTP/1.1");
  }
  head.format = *format;
  return ReadCompression(request, head.format);
}

// Whether replies may be compressed. Lines are not: they are read as they come.
bool TakesGzip(const ConnectRequest& request, const ConnectFormat& format) {
  if (format.reply == Framing::kLines) return false;
  const bool in_envelopes = format.reply == Framing::kEnvelopes;
  return Accepts(in_envelopes ? request.connect_accept_encoding : request.accept_encoding, "gzip");
}

// What the query of a GET says of its message, and that.
std::optional<HttpReply> ReadQuery(std::string_view query, ConnectHead& head) {
  auto parsed = ParseGetQuery(query);
  if (!parsed.ok()) {
    return Refusal(absl::IsUnimplemented(parsed.status()) ? 501 : 400, parsed.status());
  }
  head.format = parsed->format;
  head.message = std::move(parsed->message);
  return std::nullopt;
}

}  // namespace

HttpReply Refusal(int http_status, const absl::Status& why) {
  return {http_status, ToRpcStatus(why), {}};
}

absl::Status MalformedHttp(std::string_view message) {
  return Error(absl::StatusCode::kInvalidArgument, "MALFORMED_REQUEST", message);
}

std::variant<ConnectHead, HttpReply> Route(const HttpPort& port, const ConnectRequest& request) {
  if (auto answer = AnswerProbe(port, request); answer.has_value()) return *std::move(answer);
  if (auto refusal = RefuseHost(port, request); refusal.has_value()) return *std::move(refusal);
  // A link of another page may lead to the inspector: it has no data by itself.
  if (auto answer = AnswerUi(request); answer.has_value()) return *std::move(answer);
  if (auto refusal = RefuseSite(port, request); refusal.has_value()) return *std::move(refusal);
  if (auto answer = AnswerPreflight(port, request); answer.has_value()) return *std::move(answer);
  if (auto answer = AnswerDescription(request); answer.has_value()) return *std::move(answer);
  const std::size_t path_end = request.target.find('?');
  const auto found = port.methods.find(request.target.substr(0, path_end));
  if (found == port.methods.end()) {
    return Unimplemented(404, "METHOD_UNKNOWN", "the server has no such method");
  }
  const ConnectMethod& method = found->second;
  if (method.streams_requests && method.streams_replies) {
    return Unimplemented(501, "GRPC_ONLY", "this method is served by gRPC alone");
  }
  const bool may_get = method.has_no_effects && !method.streams_replies && !method.streams_requests;
  if (request.method != "POST" && !(may_get && request.method == "GET")) {
    return Unimplemented(405, "METHOD_NOT_ALLOWED",
                         may_get ? "a call is a POST or a GET"
                                 : "a call is a POST; GET is for methods without side effects")
        .Header("Allow", may_get ? "GET, POST" : "POST");
  }
  if (!request.connect_protocol_version.empty() && request.connect_protocol_version != "1") {
    return Invalid(400, "PROTOCOL_VERSION", "Connect-Protocol-Version: must be 1");
  }
  auto deadline = ParseConnectTimeout(request.connect_timeout_ms);
  if (!deadline.ok()) return Refusal(400, deadline.status());
  ConnectHead head{.method = &method, .format = {}, .deadline = *deadline, .message = {}};
  std::optional<HttpReply> refusal =
      request.method == "GET"
          ? ReadQuery(path_end == std::string::npos
                          ? std::string_view()
                          : std::string_view(request.target).substr(path_end + 1),
                      head)
          : ReadFormat(request, head);
  if (refusal.has_value()) return *std::move(refusal);
  head.format.takes_gzip = TakesGzip(request, head.format);
  return head;
}

}  // namespace memoryd
