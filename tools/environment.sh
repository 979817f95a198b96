#!/bin/sh
# Makes the virtual environment that the Makefile uses: environment.sh PYTHON VENV STAMP
# Of two set-ups at once in one folder the second waits for the first, and has nothing left to do.
set -eu
python=$1 venv=$2 stamp=$3

is_made() {
  [ -e "$stamp" ] || return 1
  for one in requirements.txt requirements-dev.txt pyproject.toml; do
    if [ "$one" -nt "$stamp" ]; then return 1; fi
  done
}

if command -v flock >/dev/null 2>&1; then
  exec 9<requirements.txt
  flock -n 9 || {
    echo "another set-up is at work in this folder; waiting for it"
    flock 9
  }
fi
if is_made; then exit 0; fi

"$python" -c 'import sys; sys.exit(0 if sys.version_info[:2] >= (3, 11) else "Cortado needs Python 3.11 or newer, found %d.%d" % sys.version_info[:2])'
[ -x "$venv/bin/python" ] || "$python" -m venv "$venv"

install() {
  "$venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-input "$@" || {
    echo "the Python packages are not installed, for the reason above. This command needs the network, or a folder of wheels" >&2
    echo "(PIP_FIND_LINKS=FOLDER PIP_NO_INDEX=1 make setup): $venv/bin/python -m pip install $*" >&2
    exit 1
  }
}

echo "installing the Python packages of requirements-dev.txt into $venv"
install -r requirements-dev.txt
install --no-deps -e .
touch "$stamp"
