//! Lines about access lists.

use super::{Statement, Words, one};

pub(super) fn acls(w: &Words<'_>, line: &str) -> Option<Vec<Statement>> {
    if let Some(at) = w.starts("set acl-plugin acl index") {
        let n = w.get(at);
        let unset = format!("delete acl-plugin acl index {n}");
        return Some(vec![one(format!("acl {n}"), w.rest(at + 1), line, unset)]);
    }
    if let Some(at) = w.starts("set acl-plugin l4-match-nonfirst-fragment") {
        let unset = "set acl-plugin l4-match-nonfirst-fragment 1".into();
        return Some(vec![one(
            "acl later fragments".into(),
            w.get(at),
            line,
            unset,
        )]);
    }
    let at = w.starts("set acl-plugin interface")?;
    let (name, way) = (w.get(at), w.get(at + 1));
    // One list put behind others is no whole configuration.
    if w.get(at + 2) != "acls" {
        return None;
    }
    let numbers = w.get(at + 3);
    let unset = format!("set acl-plugin interface {name} {way} acls none");
    let made = one(format!("acl-{way} {name}"), numbers, line, unset).of(name);
    let lists = numbers.split(',').map(|n| format!("acl {n}"));
    Some(vec![lists.fold(made, Statement::on)])
}
