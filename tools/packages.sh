#!/bin/sh
# Installs the Debian packages of programs that are missing: packages.sh PROGRAM:PACKAGE[,PACKAGE] ...
# All of them at once; a package manager that another program uses is waited for.
set -eu
most=600 # seconds

has() {
  case $1 in
    python-venv) "${PYTHON:-python3}" -c 'import ensurepip, venv' 2>/dev/null ;;
    newlib) test "$(arm-none-eabi-gcc -print-file-name=libc.a 2>/dev/null)" != libc.a ;;
    arm-libstdc++) test "$(arm-none-eabi-g++ -print-file-name=libstdc++.a 2>/dev/null)" != libstdc++.a ;;
    *) command -v "$1" >/dev/null 2>&1 ;;
  esac
}

missing='' packages=''
for one in "$@"; do
  if ! has "${one%%:*}"; then
    missing="$missing ${one%%:*}"
    packages="$packages $(echo "${one#*:}" | tr , ' ')"
  fi
done
if [ -z "$missing" ]; then exit 0; fi
packages=$(echo "$packages" | tr ' ' '\n' | sort -u | tr '\n' ' ' | sed 's/^ *//; s/ *$//')
command="apt-get install --no-install-recommends $packages"

give_up() {
  echo "$1" >&2
  exit 1
}

echo "not found:$missing; installing $packages"
command -v apt-get >/dev/null 2>&1 ||
  give_up "there is no apt-get here: install these packages, or what your system calls them, then run make again: $packages"
sudo=''
if [ "$(id -u)" != 0 ]; then
  sudo=$(command -v sudo) || give_up "not root, and there is no sudo: have these packages installed, then run make again: $packages
  as root: $command"
fi

# Runs apt-get; what it says is in $said. While another program has its lock, apt-get waits without a word: the first try
# waits for nothing, so that a line can say it. Of some of its locks it never waits, so it is asked again.
patience=0 waited=0
apt() {
  while :; do
    began=$(date +%s)
    if said=$($sudo env DEBIAN_FRONTEND=noninteractive apt-get -qq -o DPkg::Lock::Timeout=$patience "$@" 2>&1); then
      return 0
    fi
    case $said in *"ould not get lock"* | *"nable to lock"* | *"nable to acquire"*) ;; *) return 1 ;; esac
    if [ $patience = 0 ]; then
      echo "the package manager is in use by another program; waiting for it, up to $((most / 60)) minutes"
      patience=$most
    else
      waited=$((waited + 5 + $(date +%s) - began))
      if [ $waited -ge $most ]; then return 1; fi
      sleep 5
    fi
  done
}

apt update || true # of several sources one may be gone; what is needed may be there all the same
apt install -y --no-install-recommends $packages || {
  echo "$said" >&2
  case $said in
    *"ould not resolve"* | *"emporary failure"* | *"ailed to fetch"* | *"nable to fetch"* | *"etwork is unreachable"* | *"nable to locate"*)
      give_up "there is no network, or no such package: '$command' needs both; run it where they are, then make again" ;;
  esac
  give_up "'$command' failed, for the reason above"
}
