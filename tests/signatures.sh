#!/usr/bin/env bash
# Signatures and certificates that OpenSSL makes under Byway, verified on the plain kernel. Under a minute on two CPUs.
#      usage: signatures.sh BYWAY [COUNT]
# COUNT: signatures of each kind (500); a tenth as many certificates. One line per kind; ends with 1 if any is wrong or missing.
# A byte changed in libcrypto's text once made one P-256 signature in a hundred wrong, and nothing else told it.
set -u
usage() { echo "signatures: $1; usage: signatures.sh BYWAY [COUNT]" >&2; exit 2; }
[ $# = 1 ] || [ $# = 2 ] || usage "it takes one or two arguments"
{ [ -f "$1" ] && [ -x "$1" ]; } || usage "$1 is not a program"
count=${2:-500}
[[ $count =~ ^[1-9][0-9]{0,4}$ ]] && [ "$count" -ge 10 ] || usage "$count is not a count from 10 to 99999"
byway=$(realpath "$1")
command -v openssl >/dev/null || { echo "signatures: openssl is not installed" >&2; exit 2; }
work=$(mktemp -d); trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
export LC_ALL=C
limit=$((60 + count)) failed=0
bad() { failed=1; echo "not ok $*"; }

# OpenSSL takes part, with libcrypto in the process; else nothing below could fail.
libs=$("$byway" run -- env LD_TRACE_LOADED_OBJECTS=1 openssl)
case $libs in *libbyway_preload.so*libcrypto.so*) ;; *) bad "loaded: no libcrypto, or not Byway's library: [$libs]" ;; esac
head -c 8000000 /dev/zero >zero
secret="-aes-128-ctr -K 00112233445566778899aabbccddeeff -iv ffeeddccbbaa99887766554433221100"
# shellcheck disable=SC2086
wanted=$(openssl enc $secret -in zero | md5sum)
got=$("$byway" run --explain -- sh -c "openssl enc $secret -in zero | md5sum" 2>told)
[ "$got" = "$wanted" ] || bad "encrypted: [$got], wanted [$wanted]"
grep -qE ' openssl -> md5sum  [1-9][0-9]{6} bytes carried' told || bad "took part: openssl's pipe was not carried: [$(cat told)]"

# What, how to make its key, how to sign message $i, how to verify it.
kind() {
  local name=$1 wrong=0 missing=0 i
  mkdir d && cd d || exit 1
  for ((i = 1; i <= count; i++)); do echo "message $i of $name" >m$i; done
  { eval "$2" && openssl pkey -in key -pubout -out pub; } 2>err || bad "$name: no key: $(cat err)"
  timeout -k 5 $limit "$byway" run -- bash -c "for ((i = 1; i <= $count; i++)); do $3; done" 2>err || bad "$name: signing ended with $?: $(tail -1 err)"
  for ((i = 1; i <= count; i++)); do
    if [ ! -s s$i ]; then missing=$((missing + 1)); elif ! eval "$4" >/dev/null 2>&1; then wrong=$((wrong + 1)); fi
  done
  # The verifier can say no.
  echo "another message" >m1; i=1; eval "$4" >/dev/null 2>&1 && bad "$name: the signature of one message holds for another"
  echo "$name: $((count - missing)) signatures, $wrong wrong"
  [ $missing = 0 ] || bad "$name: $missing missing"
  [ $wrong = 0 ] || failed=1
  cd .. && rm -r d
}
sign='openssl dgst -sha256 -sign key -out s$i <m$i' verify='openssl dgst -sha256 -verify pub -signature s$i m$i'
# The first comes through a pipe, the others from a file.
kind P-256 "openssl ecparam -name prime256v1 -genkey -noout -out key" 'echo "message $i of P-256" | openssl dgst -sha256 -sign key -out s$i' "$verify"
kind P-384 "openssl ecparam -name secp384r1 -genkey -noout -out key" "$sign" "$verify"
kind P-521 "openssl ecparam -name secp521r1 -genkey -noout -out key" "$sign" "$verify"
kind Ed25519 "openssl genpkey -algorithm ed25519 -out key" 'openssl pkeyutl -sign -rawin -inkey key -in m$i -out s$i' \
  'openssl pkeyutl -verify -rawin -pubin -inkey pub -in m$i -sigfile s$i'
kind RSA-2048 "openssl genrsa -out key 2048" "$sign" "$verify"

# A small authority: each certificate has another serial number, so each is signed anew.
certificates=$((count / 10)) wrong=0 missing=0
mkdir d new && cd d || exit 1
cat >cnf <<'CNF'
[ca]
default_ca = small
[small]
database = index
serial = serial
new_certs_dir = ../new
certificate = ca.pem
private_key = ca.key
default_md = sha256
default_days = 30
unique_subject = no
policy = any
[any]
commonName = supplied
[req]
distinguished_name = name
x509_extensions = authority
[name]
[authority]
basicConstraints = critical,CA:TRUE
CNF
: >index; echo 1000 >serial
{ openssl req -x509 -config cnf -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 30 -subj /CN=small -keyout ca.key -out ca.pem &&
  openssl req -config cnf -new -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -subj /CN=host -keyout host.key -out host.csr; } 2>err ||
  bad "certificates: no authority: $(cat err)"
all="for ((i = 1; i <= $certificates; i++)); do openssl ca -config cnf -batch -notext -in host.csr -out c\$i; done"
timeout -k 5 $limit "$byway" run -- bash -c "$all" >out 2>&1 ||
  bad "certificates: openssl ca ended with $?: $(tail -1 out)"
for ((i = 1; i <= certificates; i++)); do
  if [ ! -s c$i ]; then missing=$((missing + 1)); elif ! openssl verify -CAfile ca.pem c$i >/dev/null 2>&1; then wrong=$((wrong + 1)); fi
done
openssl verify -CAfile ca.pem host.csr >/dev/null 2>&1 && bad "certificates: what is none was verified"
listed=$(cut -f4 index | sort -u | wc -l)
[ "$listed" = "$certificates" ] || bad "certificates: the authority lists $listed of $certificates serial numbers"
echo "certificates: $((certificates - missing)) signed, $wrong wrong"
[ $missing = 0 ] || bad "certificates: $missing missing"
[ $wrong = 0 ] || failed=1
exit $failed
