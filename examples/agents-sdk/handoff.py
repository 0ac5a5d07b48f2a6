"""The OpenAI Agents SDK: a hand-off to an agent with a tool. The run is a program, each agent a thread."""

#     pip install switchyard-client openai-agents
#     export OPENAI_BASE_URL=http://127.0.0.1:8787/v1 OPENAI_API_KEY=sk-sy-... MODEL=...
#     python handoff.py

import asyncio
import os

from agents import Agent, OpenAIChatCompletionsModel, RunConfig, Runner, function_tool
from openai import AsyncOpenAI

import switchyard.openai_agents

# Instead of the SDK's own processor, which would send the trace to OpenAI.
switchyard.openai_agents.install(replace=True)

model = OpenAIChatCompletionsModel(model=os.environ["MODEL"], openai_client=AsyncOpenAI())


@function_tool
def get_weather(city: str) -> str:
    """The current weather of a city."""
    return f"{city}: {({'Paris': 18, 'Oslo': 9})[city]} degrees"


expert = Agent(name="weather-expert", instructions="Look cities up.", model=model, tools=[get_weather])
triage = Agent(name="triage", instructions="Hand every question over to an expert.", model=model, handoffs=[expert])


async def main() -> None:
    result = await Runner.run(
        triage, "Is it warmer in Paris or in Oslo?", run_config=RunConfig(workflow_name="travel-desk")
    )
    print(result.final_output)


asyncio.run(main())
