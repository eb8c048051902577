#!/bin/sh
# Install what the tests of coding agents and `benchmarks.mcp_start` need into the virtual environment $1: Claude Code,
# Codex, Gemini CLI and the reference server for memories. Needs npm and 800 MB; without them those tests are skipped.
set -eu
venv=${1:-.venv}
folder="$venv/share/clients"
mkdir -p "$folder"
npm install --silent --no-audit --no-fund --ignore-scripts --prefix "$folder" \
    @anthropic-ai/claude-code@2.1.197 @openai/codex@0.171.0 @google/gemini-cli@0.61.0 \
    @modelcontextprotocol/server-memory@2026.8.31
node "$folder/node_modules/@anthropic-ai/claude-code/install.cjs"
