#!/usr/bin/env python3
"""`memoryd mcp --http` with the tools, resources and prompts that MCP's conformance suite asks for.

usage: mcp_fixtures.py FOLDER

They join memoryd's own on the server that memoryd.mcp makes, and are served as the command serves
it, with memory in FOLDER. The suite, @modelcontextprotocol/conformance 0.1.16, names each and says what it
returns.
"""

import asyncio
import base64
import enum
import json
import pathlib
import sys
from typing import Any

import pydantic

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from mcp.server.mcpserver.exceptions import ToolError
from mcp.server.mcpserver.prompts.base import UserMessage
from mcp.server.mcpserver.utilities.types import Audio, Image
from mcp_types import (
    Completion,
    EmbeddedResource,
    EmptyResult,
    ImageContent,
    SamplingMessage,
    SetLevelRequestParams,
    SubscribeRequestParams,
    TextContent,
    TextResourceContents,
    UnsubscribeRequestParams,
)

from support import paths  # noqa: F401  (makes memoryd importable)

from memoryd import local_async
from memoryd.mcp import Callers, make_server
from memoryd.mcp.command import serve_http

# A red pixel, and silence.
_PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg==")
_WAV = base64.b64decode("UklGRiYAAABXQVZFZm10IBAAAAABAAEAQB8AAAB9AAACABAAZGF0YQIAAAAA")
_CONFIRMED = "Elicitation completed: action={}, content={}"

AnyContext = Context[Any, Any]


class User(pydantic.BaseModel):
    username: str = pydantic.Field(description="User's response")
    email: str = pydantic.Field(description="User's email address")


class Status(str, enum.Enum):
    ACTIVE = "active"
    INACTIVE = "inactive"
    PENDING = "pending"


def _text_resource(uri: str, text: str) -> EmbeddedResource:
    return EmbeddedResource(type="resource", resource=TextResourceContents(
        uri=uri, mime_type="text/plain", text=text))


def _image() -> ImageContent:
    return Image(data=_PNG, format="png").to_image_content()


def add_contents(server: MCPServer[Any]) -> None:
    @server.tool(structured_output=False)
    def test_simple_text() -> str:
        """Returns a text."""
        return "This is a simple text response for testing."

    @server.tool(structured_output=False)
    def test_image_content() -> ImageContent:
        """Returns an image."""
        return _image()

    @server.tool(structured_output=False)
    def test_audio_content() -> Any:
        """Returns a sound."""
        return Audio(data=_WAV, format="wav").to_audio_content()

    @server.tool(structured_output=False)
    def test_embedded_resource() -> EmbeddedResource:
        """Returns a resource."""
        return _text_resource("test://embedded-resource", "This is an embedded resource content.")

    @server.tool(structured_output=False)
    def test_multiple_content_types() -> list[Any]:
        """Returns a text, an image and a resource."""
        return [TextContent(type="text", text="Multiple content types test:"), _image(),
                _text_resource("test://mixed-content-resource", "{}")]

    @server.tool(structured_output=False)
    def test_error_handling() -> str:
        """Fails."""
        raise ToolError("This tool intentionally returns an error for testing")


def add_schema(server: MCPServer[Any]) -> None:
    name = "json_schema_2020_12_tool"

    @server.tool(name=name, structured_output=False)
    def schema_tool() -> str:
        """Has JSON Schema 2020-12 features."""
        return "It has."

    text = {"type": "string"}
    tool = server._tool_manager.get_tool(name)
    assert tool is not None
    # No signature of Python's says this.
    tool.parameters = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "$defs": {"address": {"type": "object", "properties": {"street": text, "city": text}}},
        "properties": {"name": text, "address": {"$ref": "#/$defs/address"}},
        "additionalProperties": False}


def add_conversations(server: MCPServer[Any]) -> None:
    @server.tool(structured_output=False)
    async def test_tool_with_logging(context: AnyContext) -> str:
        """Logs."""
        for text in ("Tool execution started", "Tool processing data", "Tool execution completed"):
            await context.info(text)
            await asyncio.sleep(0.05)  # As the suite asks.
        return "Logged."

    @server.tool(structured_output=False)
    async def test_tool_with_progress(context: AnyContext) -> str:
        """Tells its progress."""
        for progress in (0, 50, 100):
            await context.report_progress(progress, 100)
            await asyncio.sleep(0.05)  # As the suite asks.
        return "Done."

    @server.tool(structured_output=False)
    async def test_sampling(prompt: str, context: AnyContext) -> str:
        """Asks the client's model."""
        answer = await context.session.create_message(
            [SamplingMessage(role="user", content=TextContent(type="text", text=prompt))],
            max_tokens=100, related_request_id=context.request_context.request_id)
        return f"LLM response: {getattr(answer.content, 'text', answer.content)}"

    @server.tool(structured_output=False)
    async def test_elicitation(message: str, context: AnyContext) -> str:
        """Asks the user."""
        answer = await context.elicit(message, User)
        return f"User response: {answer.model_dump_json()}"

    async def elicited(context: AnyContext, properties: dict[str, Any]) -> str:
        answer = await context.session.elicit_form(
            "Please answer", {"type": "object", "properties": properties},
            context.request_context.request_id)
        return _CONFIRMED.format(answer.action, json.dumps(answer.content))

    @server.tool(structured_output=False)
    async def test_elicitation_sep1034_defaults(context: AnyContext) -> str:
        """Asks with defaults."""
        return await elicited(context, {
            "name": {"type": "string", "default": "John Doe"},
            "age": {"type": "integer", "default": 30},
            "score": {"type": "number", "default": 95.5},
            "status": {"type": "string", "enum": [one.value for one in Status], "default": "active"},
            "verified": {"type": "boolean", "default": True}})

    @server.tool(structured_output=False)
    async def test_elicitation_sep1330_enums(context: AnyContext) -> str:
        """Asks to choose."""
        options = ["option1", "option2", "option3"]
        titled = [{"const": f"value{i}", "title": f"Option {i}"} for i in (1, 2, 3)]
        return await elicited(context, {
            "untitledSingle": {"type": "string", "enum": options},
            "titledSingle": {"type": "string", "oneOf": titled},
            "legacyEnum": {"type": "string", "enum": ["opt1", "opt2", "opt3"],
                           "enumNames": ["Option One", "Option Two", "Option Three"]},
            "untitledMulti": {"type": "array", "items": {"type": "string", "enum": options}},
            "titledMulti": {"type": "array", "items": {"anyOf": titled}}})


def add_resources(server: MCPServer[Any]) -> None:
    @server.resource("test://static-text", mime_type="text/plain")
    def static_text() -> str:
        """A text."""
        return "This is the content of the static text resource."

    @server.resource("test://static-binary", mime_type="image/png")
    def static_binary() -> bytes:
        """An image."""
        return _PNG

    @server.resource("test://watched-resource", mime_type="text/plain")
    def watched() -> str:
        """Something to subscribe to."""
        return "It stays."

    @server.resource("test://template/{id}/data", mime_type="application/json")
    def template(id: str) -> str:
        """Data of an id."""
        return json.dumps({"id": id, "templateTest": True, "data": f"Data for ID: {id}"})


def add_prompts(server: MCPServer[Any]) -> None:
    @server.prompt()
    def test_simple_prompt() -> str:
        """A prompt."""
        return "This is a simple prompt for testing."

    @server.prompt()
    def test_prompt_with_arguments(arg1: str, arg2: str) -> str:
        """A prompt with arguments."""
        return f"Prompt with arguments: arg1='{arg1}', arg2='{arg2}'"

    @server.prompt()
    def test_prompt_with_embedded_resource(resourceUri: str) -> list[UserMessage]:
        """A prompt with a resource."""
        return [UserMessage(_text_resource(resourceUri, "Embedded resource content for testing.")),
                UserMessage("Please process the embedded resource above.")]

    @server.prompt()
    def test_prompt_with_image() -> list[UserMessage]:
        """A prompt with an image."""
        return [UserMessage(_image()), UserMessage("Please analyze the image above.")]

    @server.completion()
    async def complete(*_: object) -> Completion:
        return Completion(values=["paris", "park", "party"], total=3, has_more=False)


def add_capabilities(server: MCPServer[Any]) -> None:
    """What memoryd's server does not offer, and the suite's does."""
    async def accept(*_: object) -> EmptyResult:
        return EmptyResult()

    lowlevel = server._lowlevel_server
    lowlevel.add_request_handler("logging/setLevel", SetLevelRequestParams, accept)
    lowlevel.add_request_handler("resources/subscribe", SubscribeRequestParams, accept)
    lowlevel.add_request_handler("resources/unsubscribe", UnsubscribeRequestParams, accept)


async def main(folder: str) -> None:
    async with await local_async(folder) as client:
        server = make_server(Callers(client, "ann"))
        for add in (add_contents, add_schema, add_conversations, add_resources, add_prompts,
                    add_capabilities):
            add(server)
        await serve_http(server, "127.0.0.1", 0)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
