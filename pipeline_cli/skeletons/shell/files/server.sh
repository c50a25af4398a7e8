#!/usr/bin/env bash
# Serves answer.sh over HTTP: signatures, health, a graceful stop. Needs bash, perl, jq and openssl.
# Start: ./server.sh @PORT@ [HOST]
#
# perl takes the connections and starts this script anew for each, which then speaks HTTP over its standard input and output.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

listen() {
    exec perl -MIO::Socket::INET -e '
        my ($port, $host, @handler) = @ARGV;
        my $server = IO::Socket::INET->new(
            LocalAddr => $host, LocalPort => $port, Listen => 256, ReuseAddr => 1) or die "port $port: $@\n";
        $| = 1;
        print "listening on http://$host:", $server->sockport, "\n";
        my $stop = 0;
        $SIG{TERM} = $SIG{INT} = sub { $stop = 1 };
        $SIG{CHLD} = "IGNORE";
        until ($stop) {
            vec(my $waiting = "", fileno $server, 1) = 1;
            next unless select($waiting, undef, undef, 0.5) > 0;
            my $connection = $server->accept or next;
            next if fork;
            $SIG{CHLD} = $SIG{TERM} = $SIG{INT} = "DEFAULT";
            open STDIN, "<&", $connection;
            open STDOUT, ">&", $connection;
            exec @handler;
        }
        close $server;
        1 while wait != -1;  # for the calls under way
    ' "$1" "$2" bash "${BASH_SOURCE[0]}" -
}

is_signed() {
    local key=${PLUGIN_SIGNING_SECRET#whsec_} now expected given
    [[ ${headers[webhook-timestamp]:-} =~ ^[0-9]{1,15}$ ]] || return 1
    printf -v now '%(%s)T' -1
    (( now - headers[webhook-timestamp] <= 300 && headers[webhook-timestamp] - now <= 300 )) || return 1
    while (( ${#key} % 4 )); do key+='='; done
    key=$(base64 -d <<<"$key" | od -An -v -tx1 | tr -d ' \n')
    expected=v1,$(printf '%s.%s.%s' "${headers[webhook-id]:-}" "${headers[webhook-timestamp]}" "$packet" |
        openssl dgst -sha256 -mac HMAC -macopt "hexkey:$key" -binary | base64)
    for given in ${headers[webhook-signature]:-}; do [[ $given == "$expected" ]] && return; done
    return 1
}

reply() {
    local LC_ALL=C  # counts bytes
    printf 'HTTP/1.1 %s\r\nContent-Type: %s\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s' \
        "$1" "${3:-application/json}" "${#2}" "$2"
    printf '{"level": "info", "message": "answered", "status": "%s", "jobID": "%s"}\n' "$1" "${headers[x-job-id]//[!!-~]/}" >&2
}

handle() {
    local line name value request packet answer code
    declare -gA headers=([x-job-id]='')
    IFS= read -r request
    while IFS= read -r line && line=${line%$'\r'} && [[ $line ]]; do
        name=${line%%:*} value=${line#*:}
        [[ $name ]] && headers[${name,,}]=${value# }
    done
    if [[ ! ${headers[content-length]:=0} =~ ^[0-9]{1,8}$ ]]; then
        reply '400 Bad Request' '{"error": "Content-Length is not a number, or too large"}'
        return
    fi
    # To close a connection on which there is something left to read is to reset it.
    packet=$(head -c "${headers[content-length]}")
    if [[ $request == 'GET /healthz '* ]]; then reply '200 OK' '{"status": "ok"}'; return; fi
    if [[ $request != 'POST '* ]]; then reply '405 Method Not Allowed' '{"error": "send a packet with POST"}'; return; fi
    if [[ ${PLUGIN_SIGNING_SECRET:-} ]] && ! is_signed; then
        reply '401 Unauthorized' '{"error": "the signature is not right"}'
        return
    fi
    if [[ $packet == *'\ud'* ]]; then
        # JSON may have half of a character of UTF-16, which jq does not take.
        packet=$(perl -pe 's/\\u(?:d[89ab]..\\ud[c-f]..(*SKIP)(*FAIL)|d[89a-f]..)/\\ufffd/gi' <<<"$packet")
    fi
    if [[ $(jq -c 'type == "object"' <<<"$packet" 2>/dev/null) != true ]]; then
        reply '400 Bad Request' '{"error": "the body is not a JSON object"}'
        return
    fi
    code=0
    answer=$("$here/answer.sh" <<<"$packet") || code=$?
    case $code in
        0) reply '200 OK' "$answer" ;;
        2) reply '422 Unprocessable Content' "$(jq -n --arg error "$answer" '{error: $error}')" ;;
        *) reply '500 Internal Server Error' '{"error": "the plugin failed; its log has the reason"}' ;;
    esac
}

if [[ $1 == - ]]; then handle; else listen "$1" "${2:-127.0.0.1}"; fi
