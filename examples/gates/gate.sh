#!/usr/bin/env bash
# AccessGate: suspends every job while a file exists, and asks to be asked again. bash, head and perl, which every Debian has.
#
#   ./gate.sh 9202 maintenance      # then: touch maintenance
#
# perl takes the connections and starts this script anew for each, which then speaks HTTP over its standard input and
# output. Whatever else does that will do: socat TCP-LISTEN:9202,bind=127.0.0.1,reuseaddr,fork EXEC:'./gate.sh - FILE',
# or a systemd socket with Accept=yes.
set -euo pipefail

listen() {
    exec perl -MIO::Socket::INET -e '
        my ($port, @handler) = @ARGV;
        my $server = IO::Socket::INET->new(
            LocalAddr => "127.0.0.1", LocalPort => $port, Listen => 64, ReuseAddr => 1) or die "port $port: $@\n";
        $SIG{CHLD} = "IGNORE";
        while (1) {
            my $connection = $server->accept or next;
            next if fork;
            $SIG{CHLD} = "DEFAULT";
            open STDIN, "<&", $connection;
            open STDOUT, ">&", $connection;
            exec @handler;
        }' "$1" bash "${BASH_SOURCE[0]}" - "$2"
}

answer() {
    local line packet length=0 status='200 OK' body='{"decision": "pass"}'
    while IFS= read -r line && line=${line%$'\r'} && [[ $line ]]; do
        if [[ ${line,,} =~ ^content-length:\ *([0-9]+) ]]; then length=${BASH_REMATCH[1]}; fi
    done
    # To close a connection on which there is something left to read is to reset it.
    packet=$(head -c "$length")
    if [[ $packet != '{'*'}' ]]; then
        status='400 Bad Request' body='{"error": "this is no packet"}'
    elif [[ -e $1 ]]; then
        body='{"decision": "suspend", "reason": "maintenance; asked again by itself", "askAgainAfterSeconds": 5}'
    fi
    printf 'HTTP/1.1 %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s' \
        "$status" "${#body}" "$body"
}

if [[ $1 == - ]]; then answer "$2"; else listen "$1" "$2"; fi
