# How workerd runs edge.ts: without flags that bring Node's modules.
using Workerd = import "/workerd/workerd.capnp";

const config :Workerd.Config = (
  services = [
    (name = "edge", worker = (
      modules = [(name = "edge.js", esModule = embed "edge.js")],
      bindings = [(name = "HTTP", fromEnvironment = "MEMORYD_TEST_HTTP")],
      compatibilityDate = "2026-11-01",
      globalOutbound = "server",
    )),
    (name = "server", network = (allow = ["private"])),
  ],
);
