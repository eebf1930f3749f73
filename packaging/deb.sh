#!/usr/bin/env bash
# Makes a Debian package of a built binary with dpkg-deb alone.
#   packaging/deb.sh BINARY OUTPUT-FOLDER
set -euo pipefail

binary=$1 out=$2
here=$(cd "$(dirname "$0")/.." && pwd)
version=$("$binary" --version | awk '{ print $2 }')
arch=$(dpkg --print-architecture)
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
# Times of files are the commit's, so that the same source gives the same package.
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git -C "$here" log -1 --format=%ct 2>/dev/null || date +%s)}
export SOURCE_DATE_EPOCH

doc=$root/usr/share/doc/parshall
install -D -m 0755 "$binary" "$root/usr/bin/parshall"
strip --strip-unneeded "$root/usr/bin/parshall"
install -D -m 0644 "$here/packaging/parshall.service" "$root/usr/lib/systemd/system/parshall.service"
install -D -m 0644 "$here/packaging/router.yaml.example" "$doc/examples/router.yaml"
install -d -m 0750 "$root/etc/parshall"
install -m 0640 "$here/packaging/router.yaml.example" "$root/etc/parshall/router.yaml.example"
install -m 0644 "$here"/docs/reference/*.md "$doc/"
"$binary" man "$root/usr/share/man/man1"
gzip -9n "$root"/usr/share/man/man1/*.1
install -d "$root/usr/share/bash-completion/completions" "$root/usr/share/zsh/vendor-completions" \
  "$root/usr/share/fish/vendor_completions.d"
"$binary" completions bash >"$root/usr/share/bash-completion/completions/parshall"
"$binary" completions zsh >"$root/usr/share/zsh/vendor-completions/_parshall"
"$binary" completions fish >"$root/usr/share/fish/vendor_completions.d/parshall.fish"

cat >"$doc/copyright" <<TEXT
Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/
Upstream-Name: parshall
Source: https://github.com/parshall/parshall

Files: *
Copyright: 2026 the Parshall authors
License: Apache-2.0
 On Debian systems the full text of the Apache License 2.0 is in /usr/share/common-licenses/Apache-2.0.
TEXT
gzip -9nc "$here/CHANGELOG.md" >"$doc/changelog.gz"
printf 'parshall (%s) unstable; urgency=medium\n\n  * See changelog.gz.\n\n -- The Parshall authors <parshall@localhost>  %s\n' \
  "$version" "$(date -u -R -d "@$SOURCE_DATE_EPOCH")" | gzip -9nc >"$doc/changelog.Debian.gz"

install -d "$root/DEBIAN"
cat >"$root/DEBIAN/control" <<TEXT
Package: parshall
Version: $version
Section: net
Priority: optional
Architecture: $arch
Maintainer: The Parshall authors <parshall@localhost>
Depends: libc6 (>= 2.34), libgcc-s1
Suggests: prometheus
Installed-Size: $(du -sk --exclude=DEBIAN "$root" | cut -f1)
Homepage: https://github.com/parshall/parshall
Description: software router with packet telemetry inside
 Parshall forwards packets through a graph of nodes over vectors, samples them
 as sFlow version 5, and names the reason of every drop. It speaks AF_XDP,
 AF_PACKET, TAP and memif, and has its own tools for sFlow.
TEXT
echo /etc/parshall/router.yaml.example >"$root/DEBIAN/conffiles"
# Nothing starts by itself: a router takes interfaces away from the machine.
cat >"$root/DEBIAN/postinst" <<'TEXT'
#!/bin/sh
set -e
if [ "$1" = configure ] && [ -z "$DPKG_ROOT" ] && [ -d /run/systemd/system ]; then
    systemctl daemon-reload || true
fi
TEXT
cat >"$root/DEBIAN/prerm" <<'TEXT'
#!/bin/sh
set -e
if [ "$1" = remove ] && [ -z "$DPKG_ROOT" ] && [ -d /run/systemd/system ]; then
    systemctl stop parshall.service || true
fi
TEXT
cp "$root/DEBIAN/postinst" "$root/DEBIAN/postrm"
sed -i 's/= configure/= remove/' "$root/DEBIAN/postrm"
chmod 0755 "$root/DEBIAN/postinst" "$root/DEBIAN/prerm" "$root/DEBIAN/postrm"
find "$root" -newermt "@$SOURCE_DATE_EPOCH" -exec touch -hd "@$SOURCE_DATE_EPOCH" {} +

mkdir -p "$out"
dpkg-deb --root-owner-group -Z"${DEB_COMPRESSION:-xz}" --build "$root" "$out/parshall_${version}_$arch.deb"
