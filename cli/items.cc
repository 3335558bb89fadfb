#include "cli/items.h"

#include <fmt/format.h>

#include <CLI/Validators.hpp>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "cli/command.h"
#include "cli/connection.h"
#include "cli/namespace_text.h"
#include "cli/pages.h"
#include "cli/printer.h"
#include "cli/table.h"
#include "cli/time_text.h"
#include "core/base/secret_file.h"
#include "core/base/status_macros.h"
#include "memoryd/v1/item_service.grpc.pb.h"

namespace memoryd::cli {
namespace {

using Service = v1::ItemService::Stub;

struct Arguments {
  std::string name_space;
  std::string key;
  // Of `put`.
  std::string value;
  std::string mime_type;
  std::optional<double> ttl_s;
  std::vector<std::string> fields;
  std::optional<std::int64_t> version;  // Of `delete` too.
  // Of `get`.
  bool value_alone = false;
  std::string subject;  // Of `namespaces` too.
  // Of `list`, `search` and `namespaces`.
  std::string prefix;
  std::string filter;
  std::string query;
  bool keys_only = false;
  bool newest_first = false;
  std::int32_t depth = 0;
  std::int64_t limit = 0;
  // Of `delete`.
  bool recursive = false;
  bool yes = false;
  bool is_of_item = false;  // A KEY was given, even an empty one.
};

template <typename Request>
absl::Status SetNamespace(const std::string& text, Request& request) {
  MEMORYD_ASSIGN_OR_RETURN(const std::vector<std::string> names, ParseNamespace(text));
  for (const std::string& name : names) request.add_namespace_(name);
  return absl::OkStatus();
}

// The argument, or what is in the file that it names.
absl::StatusOr<std::string> ValueOf(const Arguments& arguments) {
  if (!arguments.value.starts_with('@')) return arguments.value;
  auto content = ReadPublicFile(arguments.value.substr(1));
  if (content.ok()) return content;
  return absl::InvalidArgumentError(
      fmt::format("VALUE: {}", std::string(content.status().message())));
}

std::string ValueText(const v1::Item& item) {
  if (item.has_json()) return item.json();
  if (item.has_bytes_value()) {
    return fmt::format("[{}, {} bytes]", item.mime_type(), item.bytes_value().size());
  }
  return "";
}

absl::Status Put(Connection& connection, Printer& printer, const Arguments& arguments) {
  v1::PutItemRequest request;
  MEMORYD_RETURN_IF_ERROR(SetNamespace(arguments.name_space, request));
  v1::ItemPut& put = *request.mutable_put();
  put.set_key(arguments.key);
  MEMORYD_ASSIGN_OR_RETURN(std::string value, ValueOf(arguments));
  if (arguments.mime_type.empty()) {
    put.set_json(std::move(value));
  } else {
    put.set_bytes_value(std::move(value));
    put.set_mime_type(arguments.mime_type);
  }
  if (arguments.ttl_s.has_value()) {
    const auto us = static_cast<std::int64_t>(*arguments.ttl_s * 1'000'000);
    put.mutable_ttl()->set_seconds(us / 1'000'000);
    put.mutable_ttl()->set_nanos(static_cast<std::int32_t>(us % 1'000'000 * 1000));
  }
  for (const std::string& field : arguments.fields) put.mutable_search()->add_fields(field);
  if (arguments.version.has_value()) put.set_expected_version(*arguments.version);
  if (!arguments.subject.empty()) request.mutable_config()->set_subject(arguments.subject);
  MEMORYD_ASSIGN_OR_RETURN(const v1::PutItemResponse response,
                           connection.Call(&Service::PutItem, request));
  printer.PrintNamed("write", response.write());
  return absl::OkStatus();
}

absl::Status Get(Connection& connection, Printer& printer, const Arguments& arguments) {
  v1::GetItemRequest request;
  MEMORYD_RETURN_IF_ERROR(SetNamespace(arguments.name_space, request));
  request.mutable_get()->set_key(arguments.key);
  // An operator who looks at an item must not prolong its ttl.
  request.mutable_get()->set_refresh_ttl(false);
  MEMORYD_ASSIGN_OR_RETURN(const v1::GetItemResponse response,
                           connection.Call(&Service::GetItem, request));
  if (!response.has_item()) {
    return absl::NotFoundError(
        fmt::format("KEY: namespace {} has no item {}", arguments.name_space, arguments.key));
  }
  const v1::Item& item = response.item();
  if (arguments.value_alone) {
    printer.Print(item.has_json() ? item.json() + "\n" : item.bytes_value());
  } else {
    printer.PrintNamed("item", item);
  }
  return absl::OkStatus();
}

absl::Status List(Connection& connection, Printer& printer, const Arguments& arguments) {
  v1::ListItemsRequest request;
  MEMORYD_RETURN_IF_ERROR(SetNamespace(arguments.name_space, request));
  request.set_key_prefix(arguments.prefix);
  request.set_filter_json(arguments.filter);
  request.set_keys_only(arguments.keys_only);
  if (arguments.newest_first) request.set_order(v1::ITEM_ORDER_NEWEST_FIRST);
  Table table({"KEY", "VERSION", "UPDATED", "EXPIRES", "VALUE"}, printer.width(), printer.colour());
  const auto print = [&](const v1::ListItemsResponse& page) {
    for (const v1::Item& item : page.items()) {
      if (printer.json()) {
        printer.PrintJson("item", item);
      } else {
        table.Add({item.key(), fmt::to_string(item.version()), TimeText(item.update_time()),
                   TimeText(item.expire_time()), ValueText(item)});
      }
    }
    if (!printer.json()) printer.Print(table.Take());
    printer.Flush();
    return TakenOf(printer, page.items_size());
  };
  return ReadPages(connection, &Service::ListItems, request, arguments.limit, print);
}

absl::Status Search(Connection& connection, Printer& printer, const Arguments& arguments) {
  v1::SearchItemsRequest request;
  if (!arguments.name_space.empty()) {
    MEMORYD_ASSIGN_OR_RETURN(const std::vector<std::string> names,
                             ParseNamespace(arguments.name_space));
    for (const std::string& name : names) request.add_namespace_prefix(name);
  }
  request.set_query(arguments.query);
  request.set_filter_json(arguments.filter);
  request.set_limit(static_cast<std::int32_t>(arguments.limit));
  request.set_refresh_ttl(false);
  MEMORYD_ASSIGN_OR_RETURN(const v1::SearchItemsResponse response,
                           connection.Call(&Service::SearchItems, request));
  Table table({"SCORE", "NAMESPACE", "KEY", "UPDATED", "VALUE"}, printer.width(), printer.colour());
  for (const v1::ItemResult& result : response.results()) {
    const v1::Item& item = result.item();
    if (printer.json()) {
      printer.PrintJson("result", result);
    } else {
      table.Add({result.has_score() ? fmt::format("{:.2f}", result.score()) : "",
                 NamespaceText(item.namespace_()), item.key(), TimeText(item.update_time()),
                 ValueText(item)});
    }
  }
  if (!printer.json()) printer.Print(table.Take());
  return absl::OkStatus();
}

absl::Status DeleteOne(Connection& connection, Printer& printer, const Arguments& arguments) {
  // As a script has it from a variable that is not set: it means no whole namespace.
  if (arguments.key.empty()) {
    return absl::InvalidArgumentError("KEY: is empty; leave it out to delete the namespace");
  }
  if (arguments.recursive) {
    return absl::InvalidArgumentError("--recursive: deletes namespaces, so it takes no KEY");
  }
  MEMORYD_RETURN_IF_ERROR(Confirm(arguments.yes, fmt::format("Delete item {} of namespace {}?",
                                                             arguments.key, arguments.name_space)));
  v1::DeleteItemRequest request;
  MEMORYD_RETURN_IF_ERROR(SetNamespace(arguments.name_space, request));
  request.mutable_delete_()->set_key(arguments.key);
  if (arguments.version.has_value()) {
    request.mutable_delete_()->set_expected_version(*arguments.version);
  }
  MEMORYD_ASSIGN_OR_RETURN(const v1::DeleteItemResponse response,
                           connection.Call(&Service::DeleteItem, request));
  if (printer.json()) {
    printer.PrintMessage(response);
  } else {
    printer.Print(response.existed() ? "deleted 1 item\n" : "there was no such item\n");
  }
  return absl::OkStatus();
}

absl::Status Delete(Connection& connection, Printer& printer, const Arguments& arguments) {
  if (arguments.is_of_item) return DeleteOne(connection, printer, arguments);
  if (arguments.version.has_value()) {
    return absl::InvalidArgumentError("--version: is an item's, so it needs a KEY");
  }
  MEMORYD_RETURN_IF_ERROR(Confirm(
      arguments.yes, fmt::format("Delete all items of namespace {}{}?", arguments.name_space,
                                 arguments.recursive ? " and of those below it" : "")));
  v1::DeleteNamespaceRequest request;
  MEMORYD_RETURN_IF_ERROR(SetNamespace(arguments.name_space, request));
  request.set_recursive(arguments.recursive);
  MEMORYD_ASSIGN_OR_RETURN(const v1::DeleteNamespaceResponse response,
                           connection.Call(&Service::DeleteNamespace, request));
  if (printer.json()) {
    printer.PrintMessage(response);
  } else {
    printer.Print(fmt::format("deleted {} namespaces and {} items\n", response.namespace_count(),
                              response.item_count()));
  }
  return absl::OkStatus();
}

absl::Status ListNamespaces(Connection& connection, Printer& printer, const Arguments& arguments) {
  v1::ListNamespacesRequest request;
  if (!arguments.name_space.empty()) {
    MEMORYD_ASSIGN_OR_RETURN(const std::vector<std::string> names,
                             ParseNamespace(arguments.name_space));
    v1::NamespaceMatch& match = *request.add_matches();
    for (const std::string& name : names) match.add_names(name);
  }
  request.set_max_depth(arguments.depth);
  request.set_subject(arguments.subject);
  Table table({"NAMESPACE", "ITEMS", "BYTES", "SUBJECT", "UPDATED"}, printer.width(),
              printer.colour());
  const auto print = [&](const v1::ListNamespacesResponse& page) {
    for (const v1::Namespace& one : page.namespaces()) {
      if (printer.json()) {
        printer.PrintJson("namespace", one);
      } else if (arguments.depth > 0) {
        // ListNamespaces tells the path alone of a namespace that `max_depth` cuts.
        table.Add({NamespaceText(one.namespace_()), "", "", "", ""});
      } else {
        table.Add({NamespaceText(one.namespace_()), fmt::to_string(one.item_count()),
                   fmt::to_string(one.item_bytes()), one.config().subject(),
                   TimeText(one.update_time())});
      }
    }
    if (!printer.json()) printer.Print(table.Take());
    printer.Flush();
    return TakenOf(printer, page.namespaces_size());
  };
  return ReadPages(connection, &Service::ListNamespaces, request, arguments.limit, print);
}

// Declares the commands.
class Declarer {
 public:
  Declarer(CLI::App& items, Invocation& invocation) : items_(items), invocation_(invocation) {}

  void AddPut() {
    CLI::App& put = Add("put", "Stores an item, in the place of the one of the same key.", &Put);
    TakeNamespace(put);
    TakeKey(put)->required();
    put.add_option("VALUE", arguments_->value, "A JSON value; @FILE reads it.")->required();
    put.add_option("--mime-type", arguments_->mime_type, "Stores bytes of this type, and no JSON.");
    put.add_option("--ttl", arguments_->ttl_s, "How long it stays; else as its namespace says.")
        ->type_name("SECONDS")
        ->check(Between(0.001, 3'153'600'000.0));
    put.add_option("--version", arguments_->version,
                   "Only if the item is at this version; 0: if there is none.")
        ->type_name("N");
    AddRepeatable(put, "--field", arguments_->fields,
                  "A field that search looks at; repeatable. Else as its namespace says.");
    put.add_option("--subject", arguments_->subject,
                   "The user that the namespace is about: what erase removes. It is set when the "
                   "namespace is created; an existing one must have it.");
  }

  void AddGet() {
    CLI::App& get = Add("get", "Shows an item.", &Get);
    TakeNamespace(get);
    TakeKey(get)->required();
    get.add_flag("--value", arguments_->value_alone, "The value alone, as it is stored.");
  }

  void AddList() {
    CLI::App& list = Add("list", "Lists a namespace's items by key.", &List);
    TakeNamespace(list);
    list.add_option("--prefix", arguments_->prefix, "Those whose key begins so.");
    TakeFilter(list);
    list.add_flag("--keys-only", arguments_->keys_only, "Without values.");
    list.add_flag("--newest-first", arguments_->newest_first, "What was written last comes first.");
    TakeLimit(list);
  }

  void AddSearch() {
    CLI::App& search =
        Add("search", "Finds items in namespaces, the best or the newest first.", &Search);
    search.add_option("PREFIX", arguments_->name_space, "What their paths begin with; none: all.");
    search.add_option("--query", arguments_->query, "What they are about.");
    TakeFilter(search);
    search.add_option("--limit", arguments_->limit, "At most so many; 0: 10 [0].")
        ->type_name("N")
        ->check(Between(0, 1000));
  }

  void AddDelete() {
    CLI::App& deletion = Add("delete", "Deletes an item, or without KEY a namespace.", &Delete);
    TakeNamespace(deletion);
    TakeKey(deletion)->each(
        [arguments = arguments_.get()](const std::string&) { arguments->is_of_item = true; });
    deletion.add_flag("--recursive", arguments_->recursive, "The namespaces below too.");
    deletion.add_option("--version", arguments_->version, "Only if the item is at this version.")
        ->type_name("N");
    deletion.add_flag("--yes", arguments_->yes, "Do not ask.");
  }

  void AddNamespaces() {
    CLI::App& list = Add("namespaces", "Lists namespaces that have items.", &ListNamespaces);
    list.add_option("PREFIX", arguments_->name_space,
                    "What their paths begin with, * for any name; none: all.");
    list.add_option("--depth", arguments_->depth,
                    "Cuts longer paths to so many names; 0: none [0].")
        ->type_name("N")
        ->check(Between(0, 16));
    list.add_option("--subject", arguments_->subject, "Those of this subject alone.");
    TakeLimit(list);
  }

 private:
  using Run = absl::Status (*)(Connection&, Printer&, const Arguments&);

  CLI::App& Add(const char* name, const char* help, Run run) {
    return AddCommand(items_, name, help, invocation_,
                      [arguments = arguments_, run](Connection& connection, Printer& printer) {
                        return run(connection, printer, *arguments);
                      });
  }
  void TakeNamespace(CLI::App& command) {
    command
        .add_option("NAMESPACE", arguments_->name_space,
                    "Names with / between, or a JSON array of them.")
        ->required();
  }
  CLI::Option* TakeKey(CLI::App& command) {
    return command.add_option("KEY", arguments_->key, "The item's key.");
  }
  void TakeFilter(CLI::App& command) {
    command
        .add_option("--filter", arguments_->filter,
                    "What fields must be, as {\"age\":{\"$gte\":18}}: SearchItemsRequest.")
        ->type_name("JSON");
  }
  void TakeLimit(CLI::App& command) {
    command.add_option("--limit", arguments_->limit, "At most so many; 0: all [0].")
        ->check(CLI::NonNegativeNumber);
  }

  CLI::App& items_;
  Invocation& invocation_;
  const std::shared_ptr<Arguments> arguments_ = std::make_shared<Arguments>();
};

}  // namespace

void AddItems(CLI::App& app, Invocation& invocation) {
  CLI::App& items = AddGroup(app, "items", "Values under keys, in namespaces such as users/ada");
  Declarer declarer(items, invocation);
  declarer.AddPut();
  declarer.AddGet();
  declarer.AddList();
  declarer.AddSearch();
  declarer.AddDelete();
  declarer.AddNamespaces();
}

}  // namespace memoryd::cli
