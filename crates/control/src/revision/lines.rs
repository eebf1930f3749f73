//! What differs between two texts, line by line, as `diff -u` shows it (without line numbers).

/// Lines around a change that are shown too.
const AROUND: usize = 3;
/// Longest stretch that is compared line with line; of longer ones all lines count as changed.
const LONGEST: usize = 3000;

/// Lines of `new` and `old` with ` `, `-` or `+` before them; empty when they are the same. A gap is a line `...`.
pub fn diff(old: &str, new: &str) -> String {
    let (a, b): (Vec<&str>, Vec<&str>) = (old.lines().collect(), new.lines().collect());
    let same = a.iter().zip(&b).take_while(|(x, y)| x == y).count();
    let rest = a.len().min(b.len()) - same;
    let tail = a.iter().rev().zip(b.iter().rev()).take(rest);
    let tail = tail.take_while(|(x, y)| x == y).count();
    let mut all: Vec<(char, &str)> = a[..same].iter().map(|l| (' ', *l)).collect();
    middle(&a[same..a.len() - tail], &b[same..b.len() - tail], &mut all);
    all.extend(a[a.len() - tail..].iter().map(|l| (' ', *l)));
    shown(&all)
}

/// The longest common subsequence of two stretches, by a table.
fn middle<'t>(a: &[&'t str], b: &[&'t str], out: &mut Vec<(char, &'t str)>) {
    if a.len() > LONGEST || b.len() > LONGEST {
        out.extend(a.iter().map(|l| ('-', *l)));
        out.extend(b.iter().map(|l| ('+', *l)));
        return;
    }
    let width = b.len() + 1;
    let mut common = vec![0u16; (a.len() + 1) * width];
    for i in (0..a.len()).rev() {
        for j in (0..b.len()).rev() {
            common[i * width + j] = if a[i] == b[j] {
                common[(i + 1) * width + j + 1] + 1
            } else {
                common[(i + 1) * width + j].max(common[i * width + j + 1])
            };
        }
    }
    let (mut i, mut j) = (0, 0);
    while i < a.len() || j < b.len() {
        if i < a.len() && j < b.len() && a[i] == b[j] {
            out.push((' ', a[i]));
            (i, j) = (i + 1, j + 1);
        } else if j == b.len()
            || i < a.len() && common[(i + 1) * width + j] >= common[i * width + j + 1]
        {
            out.push(('-', a[i]));
            i += 1;
        } else {
            out.push(('+', b[j]));
            j += 1;
        }
    }
}

fn shown(all: &[(char, &str)]) -> String {
    let mut near = vec![false; all.len()];
    for (i, _) in all.iter().enumerate().filter(|(_, (sign, _))| *sign != ' ') {
        let end = (i + AROUND + 1).min(all.len());
        near[i.saturating_sub(AROUND)..end].fill(true);
    }
    let (mut out, mut gap) = (String::new(), false);
    for ((sign, line), near) in all.iter().zip(near) {
        if near {
            out.push_str(&format!("{sign} {line}\n"));
        } else if !gap && !out.is_empty() {
            out.push_str("...\n");
        }
        gap = !near;
    }
    out.strip_suffix("...\n").map_or(out.clone(), str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_are_shown_with_what_is_around_them() {
        assert_eq!(diff("a\nb\n", "a\nb\n"), "");
        assert_eq!(diff("a\nb\nc\n", "a\nx\nc\n"), "  a\n- b\n+ x\n  c\n");
        assert_eq!(diff("", "a\n"), "+ a\n");
        let old: String = (0..20).map(|n| format!("{n}\n")).collect();
        let new = old.replace("2\n3\n", "2\n").replace("17\n", "17\nx\n");
        let want = "  0\n  1\n  2\n- 3\n  4\n  5\n  6\n...\n  15\n  16\n  17\n+ x\n  18\n  19\n";
        assert_eq!(diff(&old, &new), want);
    }
}
