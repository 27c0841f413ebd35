"""GraphQL over HTTP."""
