#!/usr/bin/env bash
# Opens a report page in headless Chromium: check_report.sh PAGE.html
# Fails on a console message, a chart that was not drawn, or any network request. The browser's own
# network log is the witness; its resolver is blocked, so that nothing could be fetched unseen.
# Exits 77 (skipped) when Chromium is not installed.
set -euo pipefail

page=$(realpath "$1")
browser=$(command -v chromium || command -v chromium-browser || command -v google-chrome || true)
if [[ -z $browser ]]; then
  echo "skipped: Chromium is not installed"
  exit 77
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

if ! timeout 120 "$browser" --headless --no-sandbox --disable-gpu --no-first-run \
    --disable-background-networking --disable-component-update --disable-sync \
    --disable-default-apps --disable-extensions --disable-dev-shm-usage \
    --user-data-dir="$work/profile" --host-resolver-rules="MAP * ~NOTFOUND" \
    --log-net-log="$work/net.json" --net-log-capture-mode=Everything \
    --enable-logging=stderr --virtual-time-budget=5000 --dump-dom "file://$page" \
    >"$work/dom.html" 2>"$work/log"; then
  echo "FAIL: Chromium ended with an error"
  tail -20 "$work/log"
  exit 1
fi

failed=0
if grep -E ':CONSOLE' "$work/log"; then
  echo "FAIL: console messages (above)"
  failed=1
fi

canvases=$({ grep -o '<canvas' "$work/dom.html" || true; } | wc -l)
drawn=$(grep -o 'data-charts="[0-9]*"' "$work/dom.html" | grep -o '[0-9]*' || echo none)
if [[ $drawn != "$canvases" ]]; then
  echo "FAIL: the page has $canvases charts, its script drew $drawn"
  failed=1
fi

# The browser's own requests (updates, time) have the initiator "not an origin"; a page's have its
# origin, which for a file is "null" or "file://".
requests=$(grep -E '"url":"(https?|wss?|ftp):' "$work/net.json" | grep '"initiator":' |
           grep -v '"initiator":"not an origin"' | grep -oE '"url":"[^"]*"' | sort -u || true)
if [[ -n $requests ]]; then
  echo "FAIL: network requests:"
  echo "$requests"
  failed=1
fi
if ! grep -q '"constants"' "$work/net.json"; then
  echo "FAIL: Chromium wrote no network log"
  failed=1
fi

if [[ $failed == 0 ]]; then
  echo "ok: $canvases charts drawn, no console message, no network request: $page"
fi
exit $failed
