#include "server/http/http_reply.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <string>
#include <string_view>
#include <utility>

#include "server/http/connect_codec.h"
#include "server/wire/rpc_status.h"

namespace memoryd {
namespace {

constexpr int kUnauthenticated = 16;
constexpr int kUnmodified = 304;

std::string_view ReasonOf(int status) {
  switch (status) {
    case 200:
      return "OK";
    case 304:
      return "Not Modified";
    case 307:
      return "Temporary Redirect";
    case 400:
      return "Bad Request";
    case 401:
      return "Unauthorized";
    case 403:
      return "Forbidden";
    case 404:
      return "Not Found";
    case 405:
      return "Method Not Allowed";
    case 408:
      return "Request Timeout";
    case 409:
      return "Conflict";
    case 415:
      return "Unsupported Media Type";
    case 429:
      return "Too Many Requests";
    case 431:
      return "Request Header Fields Too Large";
    case 499:
      return "Client Closed Request";
    case 500:
      return "Internal Server Error";
    case 501:
      return "Not Implemented";
    case 503:
      return "Service Unavailable";
    case 504:
      return "Gateway Timeout";
    case 505:
      return "HTTP Version Not Supported";
    default:
      return "";
  }
}

bool IsPrintable(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return c >= ' ' && c <= '~'; });
}

}  // namespace

HttpReply::HttpReply(int status, std::string_view cache)
    : is_unmodified_(status == kUnmodified),
      head_(fmt::format("HTTP/1.1 {} {}\r\n", status, ReasonOf(status))) {
  Header("Cache-Control", cache);
  // What a browser is told of any answer: it is what it says it is.
  Header("X-Content-Type-Options", "nosniff");
}

HttpReply::HttpReply(const RpcStatus& error, std::string_view request_id)
    : HttpReply(HttpStatusOf(error.code), error, request_id) {}

HttpReply::HttpReply(int status, const RpcStatus& error, std::string_view request_id)
    : HttpReply(status) {
  Header("Content-Type", "application/json");
  if (error.code == kUnauthenticated) Header("WWW-Authenticate", "Bearer");
  if (!request_id.empty() && IsPrintable(request_id)) Header("X-Request-Id", request_id);
  Body(ErrorJson(error));
}

HttpReply& HttpReply::Header(std::string_view name, std::string_view value) {
  fmt::format_to(std::back_inserter(head_), "{}: {}\r\n", name, value);
  return *this;
}

HttpReply& HttpReply::Body(std::string body) {
  body_ = std::move(body);
  return *this;
}

HttpReply& HttpReply::FixedBody(std::string_view body) {
  fixed_body_ = body;
  return *this;
}

HttpReply& HttpReply::KeepAlive(bool keeps_alive) {
  if (!keeps_alive) Header("Connection", "close");
  return *this;
}

std::string HttpReply::HeadOf(std::size_t body_bytes) const {
  if (is_unmodified_) return head_ + "\r\n";
  return fmt::format("{}Content-Length: {}\r\n\r\n", head_, body_bytes);
}

std::string HttpReply::HeadOfChunks() const { return head_ + "Transfer-Encoding: chunked\r\n\r\n"; }

std::string HttpReply::Text() const { return HeadAlone() + body_; }

std::string HttpReply::HeadAlone() const { return HeadOf(body_.size() + fixed_body_.size()); }

}  // namespace memoryd
