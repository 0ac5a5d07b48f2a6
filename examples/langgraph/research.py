"""LangGraph: a plan, one branch per city at the same time, and a conclusion. One program with exact threads and parents."""

#     pip install switchyard-client langgraph langchain-openai
#     export OPENAI_BASE_URL=http://127.0.0.1:8787/v1 OPENAI_API_KEY=sk-sy-... MODEL=...
#     python research.py

import operator
import os
from typing import Annotated, Any, TypedDict

from langchain_openai import ChatOpenAI
from langgraph.graph import END, START, StateGraph
from langgraph.types import Send

import switchyard

CITIES = ["Paris", "Oslo", "Rome"]
model = ChatOpenAI(model=os.environ["MODEL"])


class State(TypedDict):
    question: str
    city: str
    findings: Annotated[list[str], operator.add]
    answer: str


def ask(text: str) -> str:
    return str(model.invoke(text).content)


def plan(state: State) -> dict[str, Any]:
    return {"findings": [ask(f"Make a plan first: {state['question']}")]}


# LangGraph runs the branches in a thread pool. The decorator only names their threads; without it they would be exact too.
@switchyard.step("look_up")
def look_up(state: State) -> dict[str, Any]:
    with switchyard.tool("weather"):
        degrees = {"Paris": 18, "Oslo": 9, "Rome": 24}[state["city"]]
    return {"findings": [ask(f"Report on {state['city']} only: {degrees} degrees")]}


def conclude(state: State) -> dict[str, Any]:
    return {"answer": ask("Conclude from these findings: " + "; ".join(state["findings"]))}


def branches(state: State) -> list[Send]:
    return [Send("look_up", {**state, "city": city}) for city in CITIES]


graph = StateGraph(State)
graph.add_node("plan", plan)
graph.add_node("look_up", look_up)
graph.add_node("conclude", conclude)
graph.add_edge(START, "plan")
graph.add_conditional_edges("plan", branches, ["look_up"])
graph.add_edge("look_up", "conclude")
graph.add_edge("conclude", END)

with switchyard.program("city-research") as run:
    result = graph.compile().invoke(
        {"question": "Which city is the warmest?", "city": "", "findings": [], "answer": ""}
    )
    print(result["answer"])
print(f"GET /v1/programs/{run.id}/calls")
