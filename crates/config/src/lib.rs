//! The YAML file: schema, checks with file, line and field, translation to commands.
//!
//! This room is a pure translation: text in, a [`Plan`] out. A plan holds what must be known before the
//! engine starts, and the command lines, in VPP's command language and in the order of their
//! dependencies, that bring a fresh router into the state that the file describes. It opens no device,
//! touches no running router, and knows of the command language only its spelling.

/// What a file asks for.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    /// Command lines in the order of their dependencies.
    pub commands: Vec<PlanLine>,
}

/// One command line and where in the file it comes from.
#[derive(Clone, Debug)]
pub struct PlanLine {
    /// The text of the command.
    pub line: String,
}
