#include "server/http/request_parser.h"

#include <boost/beast/http/basic_parser.hpp>
#include <boost/beast/http/error.hpp>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <string_view>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "server/http2/call_headers.h"
#include "server/settings/limits.h"

namespace memoryd {
namespace {

namespace http = boost::beast::http;
using boost::beast::error_code;

std::string_view View(boost::beast::string_view text) { return {text.data(), text.size()}; }

}  // namespace

class RequestParser::Parser final : public http::basic_parser<true> {
 public:
  Parser(std::function<void(std::string_view)> body, bool keeps_fields)
      : body_(std::move(body)), keeps_fields_(keeps_fields) {
    header_limit(static_cast<std::uint32_t>(kToldHeaderBytes));
    // Who reads the body bounds it.
    body_limit(std::numeric_limits<std::uint64_t>::max());
  }

  ConnectRequest& request() { return request_; }

 private:
  void on_request_impl(http::verb /*verb*/, boost::beast::string_view method,
                       boost::beast::string_view target, int version, error_code& error) override {
    constexpr int kOne = 11;
    if (version > kOne) error = http::error::bad_version;
    request_.is_http_1_0 = version < kOne;
    request_.method.assign(View(method).substr(0, kMaxKeptHeader));
    // All of it: a GET has its message there.
    request_.target.assign(View(target));
  }

  void on_response_impl(int /*code*/, boost::beast::string_view /*reason*/, int /*version*/,
                        error_code& /*error*/) override {}

  void on_field_impl(http::field field, boost::beast::string_view given,
                     boost::beast::string_view text, error_code& /*error*/) override {
    // Fields behind a body in chunks say nothing about the call.
    if (has_head_) return;
    const std::string name = absl::AsciiStrToLower({given.data(), given.size()});
    const std::string_view value = View(text);
    TakeMetadata(request_.metadata, name, value);
    if (keeps_fields_) request_.fields.emplace_back(name, value);
    if (value.size() > kMaxKeptHeader) return;
    switch (field) {
      case http::field::host:
        ++request_.hosts;
        request_.host.assign(value);
        return;
      case http::field::origin:
        request_.origin.assign(value);
        return;
      case http::field::content_type:
        request_.content_type.assign(value);
        return;
      case http::field::content_encoding:
        request_.content_encoding.assign(value);
        return;
      case http::field::accept:
        request_.accept.assign(value);
        return;
      case http::field::accept_encoding:
        request_.accept_encoding.assign(value);
        return;
      case http::field::if_none_match:
        request_.if_none_match.assign(value);
        return;
      case http::field::expect:
        request_.expects_continue =
            absl::EqualsIgnoreCase({value.data(), value.size()}, "100-continue");
        return;
      default:
        break;
    }
    if (name == "sec-fetch-site") request_.sec_fetch_site.assign(value);
    if (name == "connect-content-encoding") request_.connect_content_encoding.assign(value);
    if (name == "connect-accept-encoding") request_.connect_accept_encoding.assign(value);
    if (name == "connect-timeout-ms") request_.connect_timeout_ms.assign(value);
    if (name == "connect-protocol-version") request_.connect_protocol_version.assign(value);
  }

  void on_header_impl(error_code& /*error*/) override {
    has_head_ = true;
    request_.keeps_alive = keep_alive();
    if (const auto length = content_length(); length.has_value()) {
      request_.content_length = *length;
    }
  }

  void on_body_init_impl(const boost::optional<std::uint64_t>& /*length*/,
                         error_code& /*error*/) override {}

  std::size_t on_body_impl(boost::beast::string_view bytes, error_code& /*error*/) override {
    body_(View(bytes));
    return bytes.size();
  }

  void on_chunk_header_impl(std::uint64_t /*size*/, boost::beast::string_view /*extensions*/,
                            error_code& /*error*/) override {}

  std::size_t on_chunk_body_impl(std::uint64_t /*remain*/, boost::beast::string_view bytes,
                                 error_code& /*error*/) override {
    if (!bytes.empty()) body_(View(bytes));
    return bytes.size();
  }

  void on_finish_impl(error_code& /*error*/) override {}

  const std::function<void(std::string_view)> body_;
  const bool keeps_fields_;
  ConnectRequest request_;
  bool has_head_ = false;
};

RequestParser::RequestParser(std::function<void(std::string_view)> body, bool keeps_fields)
    : parser_(std::make_unique<Parser>(std::move(body), keeps_fields)) {}

RequestParser::~RequestParser() = default;

RequestParser::State RequestParser::Put(std::string_view bytes, std::size_t& taken) {
  const bool had_head = parser_->is_header_done();
  error_code error;
  taken = 0;
  if (parser_->is_done()) return State::kDone;
  taken = parser_->put(boost::asio::const_buffer(bytes.data(), bytes.size()), error);
  if (error == http::error::need_more) error = {};
  if (error) {
    return error == http::error::header_limit ? State::kTooLarge : State::kMalformed;
  }
  if (!had_head && parser_->is_header_done()) return State::kHead;
  return parser_->is_done() ? State::kDone : State::kNeedsMore;
}

ConnectRequest& RequestParser::request() { return parser_->request(); }

bool RequestParser::request_ended() const { return parser_->is_done(); }

}  // namespace memoryd
