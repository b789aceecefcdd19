"""The only room that talks HTTP to an API server."""
