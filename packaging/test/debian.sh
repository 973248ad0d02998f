#!/bin/bash
# Installs, starts, upgrades, removes and purges the package, on a copy of this machine that is thrown away: what is
# written goes into memory, and mounts and network are the script's own. Needs root, dpkg and curl.
#
#   unshare --mount --net --pid --fork packaging/test/debian.sh FIRST.deb SECOND.deb
#
# There is no systemd in it: the service's command is taken out of the unit and started with the user and capabilities
# that the unit says.
set -euo pipefail

first=$(realpath "$1") second=$(realpath "$2")
place=$(mktemp -d)
trap 'umount --lazy "$place" && rmdir "$place"' EXIT
mount --make-rprivate /
mount -t tmpfs -o size=2g thalweg-test "$place"
mkdir "$place"/{upper,work,root}
mount -t overlay -o "lowerdir=/,upperdir=$place/upper,workdir=$place/work" overlay "$place/root"
root=$place/root
mount -t proc proc "$root/proc"
mount --rbind /dev "$root/dev"
mount -t tmpfs -o mode=755 run "$root/run"
mount -t tmpfs -o mode=1777 tmp "$root/tmp"
ip link set lo up
cp "$first" "$root/tmp/first.deb"
cp "$second" "$root/tmp/second.deb"

inside() { chroot "$root" /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin DEBIAN_FRONTEND=noninteractive "$@"; }
step() { echo "packages: $*"; }
fail() {
    echo "packages: FAILED: $*" >&2
    exit 1
}

# The service, as the unit has it.
unit=$root/usr/lib/systemd/system/thalweg.service
service=
start() {
    install -d -m 0750 -o "$(inside id -u thalweg)" -g "$(inside id -g thalweg)" "$root/run/thalweg"
    local line
    line=$(sed -n 's/^ExecStart=//p' "$unit")
    # `exec`: the number is to be that of the service. As under systemd, nothing else supervises it.
    # shellcheck disable=SC2086
    (exec chroot "$root" /usr/bin/env -i PATH=/usr/bin:/bin THALWEG_SUPERVISE=never setpriv --reuid thalweg --regid thalweg --init-groups --no-new-privs \
        --bounding-set=-all,+net_bind_service --inh-caps=-all,+net_bind_service --ambient-caps=-all,+net_bind_service \
        $line 2>"$place/said") &
    service=$!
    for _ in $(seq 200); do
        if inside curl --silent --fail --output /tmp/page http://127.0.0.1/; then return; fi
        kill -0 "$service" 2>/dev/null || fail "the service ended: $(cat "$place/said")"
        # Nobody tells the shell when a port is open.
        sleep 0.1
    done
    fail "the service does not answer: $(cat "$place/said")"
}
stop() {
    inside /usr/bin/thalweg stop >/dev/null
    wait "$service" || fail "the service ended with $?: $(cat "$place/said")"
    service=
}

# What earlier runs of the product have left on this machine is not part of a fresh one.
rm -rf "$root"/{etc,var/lib,var/log,usr/share}/thalweg

step "install"
! inside getent passwd thalweg >/dev/null || fail "this machine has a user thalweg"
inside dpkg --install /tmp/first.deb >/dev/null
inside getent passwd thalweg >/dev/null || fail "there is no user"
[[ $(inside stat -c '%U:%G %a' /var/lib/thalweg) == "thalweg:thalweg 750" ]] || fail "/var/lib/thalweg has another owner"
[[ $(inside stat -c '%U:%G %a' /var/log/thalweg) == "thalweg:thalweg 750" ]] || fail "/var/log/thalweg has another owner"
[[ $(inside stat -c '%U:%G %a' /etc/thalweg/thalweg.yaml) == "root:root 644" ]] || fail "the configuration has another owner"
inside dpkg --verify thalweg || fail "installed files differ from those of the package"
inside thalweg check --strict --offline >/dev/null || fail "the configuration is not in order"
inside man --warnings thalweg-run 2>&1 >/dev/null | (! grep .) || fail "the man page has mistakes"
inside bash -n /usr/share/bash-completion/completions/thalweg || fail "the completions are no script of bash"

step "start"
start
grep -q "Thalweg runs here" "$root/tmp/page" || fail "not the page: $(cat "$root/tmp/page")"
inside thalweg status >/dev/null || fail "root cannot ask the service"
[[ $(inside stat -c %U "/proc/$service") == thalweg ]] || fail "it runs as another user"
grep -q '^CapEff:.*0000000000000400$' "$root/proc/$service/status" || fail "it has other capabilities than CAP_NET_BIND_SERVICE"

step "logrotate"
if inside test -x /usr/sbin/logrotate; then
    # Lines are written a little later than answers, and what is empty is not rotated.
    for _ in $(seq 100); do
        if [[ -s $root/var/log/thalweg/access.log ]]; then break; fi
        sleep 0.1
    done
    inside logrotate --force /etc/logrotate.d/thalweg || fail "logrotate fails"
    kill -USR1 "$service"
    for _ in $(seq 100); do
        inside curl --silent --output /dev/null http://127.0.0.1/after
        if grep -q /after "$root/var/log/thalweg/access.log"; then break; fi
        sleep 0.1
    done
    grep -q /after "$root/var/log/thalweg/access.log" || fail "nothing is written after logrotate"
    [[ -s $root/var/log/thalweg/access.log.1 ]] || fail "nothing is rotated"
    ! grep -q /after "$root/var/log/thalweg/access.log.1" || fail "it is written to the old file"
fi

step "reload"
sed -i 's/welcome$/mine/' "$root/etc/thalweg/thalweg.yaml"
inside thalweg reload >/dev/null || fail "the reload fails"
inside thalweg explain GET http://localhost/ | grep -q mine || fail "the change is not there"

step "upgrade"
inside dpkg --install /tmp/second.deb >/dev/null
grep -q "name: mine" "$root/etc/thalweg/thalweg.yaml" || fail "the upgrade has changed the configuration"
inside curl --silent --fail --output /dev/null http://127.0.0.1/ || fail "the service does not survive the upgrade"
stop
start

step "remove"
stop
touch "$root/var/lib/thalweg/kept"
inside dpkg --remove thalweg >/dev/null 2>&1
! inside test -e /usr/bin/thalweg || fail "the binary is still there"
inside test -e /etc/thalweg/thalweg.yaml || fail "the configuration is gone"
inside test -e /var/lib/thalweg/kept || fail "the state is gone"

step "install again"
inside dpkg --install /tmp/first.deb >/dev/null
grep -q "name: mine" "$root/etc/thalweg/thalweg.yaml" || fail "the configuration is lost"
start
stop

step "purge"
inside dpkg --purge thalweg >/dev/null 2>&1
for path in /usr/bin/thalweg /etc/thalweg /etc/logrotate.d/thalweg /var/lib/thalweg /var/log/thalweg /usr/share/thalweg; do
    ! inside test -e "$path" || fail "$path is still there"
done
[[ -z $(inside dpkg-query --show --showformat='${Status}' thalweg 2>/dev/null) ]] || fail "dpkg still knows it"
step "all held"
