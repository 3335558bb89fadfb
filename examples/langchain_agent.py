"""A LangChain agent that remembers over restarts: its memory is in memoryd.

    python examples/langchain_agent.py alice "My name is Alice."
    python examples/langchain_agent.py alice "What is my name?"

An address ahead of these takes the place of MEMORYD_TARGET, default localhost:50051.

needs: pip install './clients/python[langchain]'

The model is scripted: it answers with what it was told. Put a real one in its place.
"""

import sys

from langchain_core.messages import HumanMessage
from langchain_core.prompt_values import PromptValue
from langchain_core.prompts import ChatPromptTemplate, MessagesPlaceholder
from langchain_core.runnables import RunnableLambda
from langchain_core.runnables.history import RunnableWithMessageHistory

from memoryd.langchain import ChatMessageHistory, connect


def answer(prompt: PromptValue) -> str:
    told = [str(m.content) for m in prompt.to_messages() if isinstance(m, HumanMessage)]
    return f"You said: {' / '.join(told)}"


def main(session: str, text: str, target: str | None = None) -> None:
    connect(target)
    prompt = ChatPromptTemplate.from_messages(
        [("system", "Be brief."), MessagesPlaceholder("history"), ("human", "{input}")])
    agent = RunnableWithMessageHistory(prompt | RunnableLambda(answer), ChatMessageHistory,
                                       input_messages_key="input", history_messages_key="history")
    print(agent.invoke({"input": text}, {"configurable": {"session_id": session}}))


if __name__ == "__main__":
    if len(sys.argv) not in (3, 4):
        sys.exit(__doc__)
    main(*sys.argv[-2:], *sys.argv[1:-2])
