// Answers of HTTP/1.1 as bytes.
#ifndef MEMORYD_SERVER_HTTP_HTTP_REPLY_H_
#define MEMORYD_SERVER_HTTP_HTTP_REPLY_H_

#include <cstddef>
#include <string>
#include <string_view>

#include "server/wire/rpc_status.h"

namespace memoryd {

// Values come from the server alone, but for `request_id`.
class HttpReply {
 public:
  // `cache`: the header Cache-Control, by default that the answer is nobody's to keep.
  explicit HttpReply(int status, std::string_view cache = "no-store");
  // An error of a unary call, with the status of HTTP that Connect has for it. `request_id`: empty
  // for none.
  HttpReply(const RpcStatus& error, std::string_view request_id);
  // The same with another status of HTTP.
  HttpReply(int status, const RpcStatus& error, std::string_view request_id);

  HttpReply& Header(std::string_view name, std::string_view value);
  // The body of Text().
  HttpReply& Body(std::string body);
  // A body that lives for ever, so that no answer has a copy. Text() is without it.
  HttpReply& FixedBody(std::string_view body);
  std::string_view fixed_body() const { return fixed_body_; }
  // Else the answer says that the connection ends.
  HttpReply& KeepAlive(bool keeps_alive);

  // The head before a body of so many bytes, which follows. That of a 304 says no size.
  std::string HeadOf(std::size_t body_bytes) const;
  // Before a body in chunks.
  std::string HeadOfChunks() const;
  std::string Text() const;
  // For a HEAD: Text() without the body, whose size it tells.
  std::string HeadAlone() const;

 private:
  bool is_unmodified_;
  std::string head_;
  std::string body_;
  std::string_view fixed_body_;
};

}  // namespace memoryd

#endif  // MEMORYD_SERVER_HTTP_HTTP_REPLY_H_
