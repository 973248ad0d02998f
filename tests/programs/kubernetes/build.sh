#!/usr/bin/env bash
# Builds the control plane that `cargo xtask test --kubernetes` runs: etcd, kube-apiserver and kube-controller-manager,
# from their Go modules. `build.sh FOLDER` puts the programs there; what is there already stays. Ten minutes the first
# time, on two cores.
set -euo pipefail

kubernetes=1.36.3
staging=0.36.3 # the version of the libraries that Kubernetes keeps in its own tree
etcd=3.6.8

folder=${1:?the folder for the programs}
mkdir -p "$folder" && folder=$(cd "$folder" && pwd)
export GOFLAGS=-mod=mod
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# have NAME VERSION: whether the program is there in this version
have() { [[ -x $folder/$1 && $(cat "$folder/$1.version" 2>/dev/null) == "$2" ]]; }

# build NAME VERSION PACKAGE LINKER_FLAGS: in the module of the working directory
build() {
    have "$1" "$2" && return
    echo "kubernetes: building $1 $2"
    nice go build -p 1 -ldflags "-s -w $4" -o "$folder/$1" "$3"
    echo "$2" >"$folder/$1.version"
}

if ! have etcd $etcd; then
    mkdir -p "$work/etcd" && cd "$work/etcd"
    printf 'module thalweg/etcd\n\ngo 1.26.0\n\nrequire go.etcd.io/etcd/server/v3 v%s\n' $etcd >go.mod
    printf 'package main\n\nimport (\n\t"os"\n\n\t"go.etcd.io/etcd/server/v3/etcdmain"\n)\n\nfunc main() { etcdmain.Main(os.Args) }\n' >main.go
    go mod tidy -e >/dev/null 2>&1 || true
    build etcd $etcd . ""
fi

if ! have kube-apiserver $kubernetes || ! have kube-controller-manager $kubernetes; then
    mkdir -p "$work/kubernetes" && cd "$work/kubernetes"
    source=$(go mod download -json k8s.io/kubernetes@v$kubernetes | sed -n 's/^\t"Dir": "\(.*\)",$/\1/p')
    cat >programs.go <<'GO'
//go:build programs

package programs

import (
	_ "k8s.io/kubernetes/cmd/kube-apiserver/app"
	_ "k8s.io/kubernetes/cmd/kube-controller-manager/app"
)
GO
    {
        printf 'module thalweg/kubernetes\n\ngo 1.26.0\n\nrequire k8s.io/kubernetes v%s\n\nreplace (\n' $kubernetes
        # Its own libraries are named by folders that only its own tree has.
        sed -n '/^replace (/,/^)/s/^\t*\([^ ]*\) => \.\/staging.*/\t\1 => \1 v'$staging'/p' "$source/go.mod"
        echo ')'
    } >go.mod
    cp "$source/go.sum" go.sum && chmod u+w go.sum
    go mod tidy -e >/dev/null 2>&1 || true
    version=k8s.io/component-base/version
    flags="-X $version.gitVersion=v$kubernetes -X $version.gitMajor=1 -X $version.gitMinor=36"
    for program in kube-apiserver kube-controller-manager; do
        build $program $kubernetes k8s.io/kubernetes/cmd/$program "$flags"
    done
fi
