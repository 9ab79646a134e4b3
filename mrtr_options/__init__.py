"""Every serious way to write a multi-round MCP tool, side by side and measured."""
