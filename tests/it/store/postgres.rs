//! What only PostgreSQL does: locks that others hold, servers that are away.
