//! The YAML file: schema, checks with file, line and field, translation to commands.
