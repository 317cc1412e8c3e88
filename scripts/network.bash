# Sourced by scripts that need a network of their own: `home`, a new directory; `network` in it; `pid` while it runs. It ends with
# the script, and its directory with it, unless the script says `keep=yes`. Wants `tally`, the program.
# shellcheck shell=bash
home=$(mktemp -d "${TMPDIR:-/tmp}/tallystick.XXXXXX")
network=$home/network
pid= keep=
# What else a script runs in the background, and has end with it.
others=()
unset TALLY_PASSPHRASE TALLY_TOKEN TALLY_NETWORK

end_processes() {
    local each
    for each in $pid "${others[@]}"; do
        kill "$each" 2>/dev/null || true
        wait "$each" 2>/dev/null || true
    done
    [ -n "$keep" ] || rm -rf "$home"
}
trap end_processes EXIT
trap 'exit 143' TERM INT

begin_network() {
    "$tally" network run "$network" >"$home/run.log" 2>&1 &
    pid=$!
}

# Waits until the network serves; `url` is where.
await_network() {
    until [ -f "$network/run.json" ] && grep -q 'listens on' "$home/run.log"; do
        network_lives
        sleep 0.05
    done
    url=$(sed -n 's|.* listens on \(https\{0,1\}://[^ ]*\).*|\1|p' "$home/run.log")
}

network_lives() { kill -0 "$pid" 2>/dev/null || { cat "$home/run.log" >&2; exit 1; }; }

stop_network() {
    kill -TERM "$pid"
    wait "$pid"
    pid=
}
