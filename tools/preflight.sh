#!/bin/sh
# Names what the machine lacks before anything is installed. Needs nothing but a shell.
# Usage: preflight.sh [PORT ...]   prints the Python to use on its last line.
fail() { printf 'accord: %s\n  expected %s\n  found    %s\n  remedy   %s\n' "$1" "$2" "$3" "$4" >&2; exit 80; }

case "${ACCORD_PORT:-}" in
    *[!0-9]*) fail "ACCORD_PORT is not a port" "a number" "$ACCORD_PORT" "set it to the first of four free ports, or unset it" ;;
esac

python=""
for candidate in "${ACCORD_PYTHON:-}" python3.11 python3 python; do
    [ -n "$candidate" ] && command -v "$candidate" >/dev/null 2>&1 || continue
    if [ "$("$candidate" -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null)" = "3.11" ]; then
        python=$(command -v "$candidate"); break
    fi
done
[ -n "$python" ] || fail "Python 3.11 is missing" "python3.11 with venv on the PATH" \
    "$(python3 --version 2>/dev/null || echo 'no python3')" "install python3.11 and python3.11-venv, or set ACCORD_PYTHON"
"$python" -c 'import ensurepip, venv' 2>/dev/null || fail "Python has no venv module" "ensurepip and venv" "neither" \
    "install python3.11-venv"

java=""
if [ -n "${JAVA_HOME:-}" ]; then java="$JAVA_HOME/bin/java"; else java=$(command -v java || true); fi
version=$("${java:-java}" -version 2>&1 | sed -n 's/.*version "\([0-9]*\).*/\1/p' | head -n 1)
[ "${version:-0}" -ge 17 ] 2>/dev/null || fail "Java 17 is missing (Spark needs it)" "java 17 or newer on the PATH or in JAVA_HOME" \
    "${version:-no java}" "install openjdk-17-jre-headless"

command -v git >/dev/null 2>&1 || fail "git is missing" "git on the PATH" "no git" "install git"

exec "$python" "$(dirname "$0")/preflight.py" "$python" "$@"
