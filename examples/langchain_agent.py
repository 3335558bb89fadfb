"""A LangChain agent that remembers over restarts: its memory is in memoryd.

    python examples/langchain_agent.py localhost:50051 alice "My name is Alice."
    python examples/langchain_agent.py localhost:50051 alice "What is my name?"

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


def main(target: str, session: str, text: str) -> None:
    connect(target)
    prompt = ChatPromptTemplate.from_messages(
        [("system", "Be brief."), MessagesPlaceholder("history"), ("human", "{input}")])
    agent = RunnableWithMessageHistory(prompt | RunnableLambda(answer), ChatMessageHistory,
                                       input_messages_key="input", history_messages_key="history")
    print(agent.invoke({"input": text}, {"configurable": {"session_id": session}}))


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    main(*sys.argv[1:])
