//! The state owner: interfaces, tables, settings; commands, diff and apply.
