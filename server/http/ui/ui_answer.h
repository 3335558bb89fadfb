// The inspector at /ui of the HTTP port.
#ifndef MEMORYD_SERVER_HTTP_UI_UI_ANSWER_H_
#define MEMORYD_SERVER_HTTP_UI_UI_ANSWER_H_

#include <optional>

#include "server/http/http_reply.h"
#include "server/http/request_parser.h"

namespace memoryd {

// The answer to a GET or HEAD of a file of the inspector, or of `/` and `/ui`, which redirect to
// it. nullopt for all else. The files have no data, so nobody has to say who asks.
std::optional<HttpReply> AnswerUi(const ConnectRequest& request);

}  // namespace memoryd

#endif  // MEMORYD_SERVER_HTTP_UI_UI_ANSWER_H_
