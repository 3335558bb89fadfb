// Puts a message into memoryd and prints the context for the next model call.
//
// usage: quickstart [TARGET]
#include <iostream>

#include "memoryd/client.h"

int main(int argc, char** argv) {
  using memoryd::client::MakeMessage;
  const memoryd::client::Client client({.target = argc > 1 ? argv[1] : "localhost:50051"});

  const auto stored = client.Put("quickstart", {MakeMessage("user", "Hello, world!")});
  if (!stored.ok()) {
    std::cerr << "not stored: " << stored.status() << '\n';
    return 1;
  }
  const auto context = client.Get("quickstart");
  if (!context.ok()) {
    std::cerr << "no context: " << context.status() << '\n';
    return 1;
  }
  for (const auto& message : context->messages()) {
    std::cout << message.role() << ": " << message.text() << '\n';
  }
}
