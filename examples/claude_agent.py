"""A Claude agent that remembers: across conversations and programs.

Runs as it stands: Claude Code, which the SDK brings along, asks a scripted model on loopback. With Claude: leave out
`serving` and `env`.

    pip install 'reverie[claude-agent]'
    python examples/claude_agent.py
"""

from __future__ import annotations

import asyncio
import json
import tempfile
from typing import Any

from claude_agent_sdk import ClaudeAgentOptions, ResultMessage, query
from scripted_server import Call, serving

from reverie import Memory
from reverie.integrations.claude_agent import ClaudeMemory


def reply(request: dict[str, Any]) -> str | Call:
    """Answer as a model would, from what it is shown."""
    shown = json.dumps(request["messages"])
    offered = {tool["name"] for tool in request.get("tools", ())}
    if "mcp__reverie__save_memory" not in offered:
        return "A title"  # Claude Code asks for small texts of its own
    if "Where is the Nautilus" in shown:
        return "At berth 7." if "lies at berth 7" in shown else "I do not know."
    if "tool_result" in shown:
        return "I will remember that."
    return Call("mcp__reverie__save_memory", {"content": "The Nautilus lies at berth 7"})


async def main() -> None:
    with (
        tempfile.TemporaryDirectory() as home,
        tempfile.TemporaryDirectory() as folder,
        Memory.open(folder) as memory,
        serving([reply] * 40) as base_url,
    ):
        env = {
            "ANTHROPIC_BASE_URL": base_url.removesuffix("/v1"), "ANTHROPIC_API_KEY": "none", "HOME": home,
            "CLAUDE_CONFIG_DIR": home, "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1", "NO_PROXY": "127.0.0.1",
        }  # fmt: skip
        for message in ("The Nautilus is at berth 7 from today on.", "Where is the Nautilus?"):
            claude = ClaudeMemory(memory)
            options = ClaudeAgentOptions(
                **claude.options(), env=env, cwd=home, setting_sources=[], max_turns=4
            )
            async for each in query(prompt=message, options=options):
                if isinstance(each, ResultMessage):
                    print(f"{message}\n  -> {each.result}")
        for overview in memory.sessions():
            print([(turn.role, turn.content[:60]) for turn in memory.turns(overview.state.id)])


if __name__ == "__main__":
    asyncio.run(main())
