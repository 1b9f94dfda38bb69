#!/usr/bin/env python3
"""Servers and clients of this host over TCP: java, node, Go, curl, nginx, ab, openssl, socat, asyncio, redis, memcached, PostgreSQL.

Each job runs on the plain kernel first and then under Byway, at least twice: what the cache does not know is looked at during
the first start.
Invariant: output and status are the kernel's, and the connections that a job names are carried. A job whose programs are not
here is skipped, and it is said what to install.
Not here: what one call answers (tests/conformance), which connections may be carried (tests/tcp.sh), rates (bench services).

  usage: served.py BYWAY [NAME...]        prints one line a job, exits 1 if any failed
"""
import sys
from jobs import Program, each, judge_of

STARTS = 4

# A number that nobody listens to; what a job starts ends with it.
BEGIN = """
PORT=$($PYTHON -c 'import socket; s = socket.create_server(("127.0.0.1", 0)); print(s.getsockname()[1])')
listens() { for _ in $(seq 400); do (exec 3<>/dev/tcp/127.0.0.1/$PORT) 2>/dev/null && return; sleep 0.05; done; echo "nobody listens"; exit 1; }
trap 'kill $(jobs -p) 2>/dev/null; wait' EXIT
"""
# 30 MB that do not repeat.
FILE = "openssl enc -aes-128-ctr -K 0 -iv 0 -in /dev/zero 2>/dev/null | head -c 30000000 >file || [ -s file ]"

JAVA = """
import com.sun.net.httpserver.HttpServer;
import java.io.*;
import java.net.*;
import java.net.http.*;
import java.net.http.HttpRequest.BodyPublishers;
import java.net.http.HttpResponse.BodyHandlers;
import java.util.*;
import java.util.concurrent.*;
public class Http {
    static HttpRequest asks(String port, byte[] b) {
        return HttpRequest.newBuilder(URI.create("http://127.0.0.1:" + port + "/")).POST(BodyPublishers.ofByteArray(b)).build();
    }
    static void tells(byte[] sent, HttpResponse<byte[]> x) {
        boolean same = x.body().length == 2 * sent.length && Arrays.equals(sent, Arrays.copyOf(x.body(), sent.length));
        System.out.println(x.statusCode() + " " + same + " " + Arrays.hashCode(x.body()));
    }
    public static void main(String[] a) throws Exception {
        if (a[0].equals("serves")) {
            HttpServer s = HttpServer.create(new InetSocketAddress("127.0.0.1", Integer.parseInt(a[1])), 0);
            s.setExecutor(Executors.newFixedThreadPool(4));
            s.createContext("/", x -> {
                byte[] in = x.getRequestBody().readAllBytes();
                x.sendResponseHeaders(200, 2 * in.length);
                try (OutputStream out = x.getResponseBody()) { out.write(in); out.write(in); }
            });
            s.start();
            return;
        }
        HttpClient c = HttpClient.newBuilder().version(HttpClient.Version.HTTP_1_1).build();
        Random r = new Random(7);
        Map<byte[], CompletableFuture<HttpResponse<byte[]>>> all = new LinkedHashMap<>();
        for (int i = 0; i < 100; i++) {
            byte[] b = new byte[1 + (i % 50 == 49 ? 3000000 : r.nextInt(20000))];
            r.nextBytes(b);
            if (i % 10 < 5) tells(b, c.send(asks(a[1], b), BodyHandlers.ofByteArray()));
            else all.put(b, c.sendAsync(asks(a[1], b), BodyHandlers.ofByteArray()));
        }
        for (var e : all.entrySet()) tells(e.getKey(), e.getValue().get());
    }
}
"""
NODE = """
const http = require('http'), crypto = require('crypto'), [what, port] = process.argv.slice(2);
const sum = stream => new Promise((ok, no) => {
    const md5 = crypto.createHash('md5');
    stream.on('data', part => md5.update(part)).on('end', () => ok(md5.digest('hex'))).on('error', no);
});
if (what === 'serves') http.createServer(async (q, s) => {
    const had = await sum(q);
    for (let i = 0; i < 200; i++)
        if (!s.write((had + i).repeat(q.url === '/much' ? 2000 : 1))) await new Promise(ok => s.once('drain', ok));
    s.end();
}).listen(port, '127.0.0.1');
else (async () => {
    const agent = new http.Agent({ keepAlive: true, maxSockets: 3 });
    const ask = (path, body) => new Promise((ok, no) =>
        http.request({ port, host: '127.0.0.1', path, method: 'POST', agent }, s => ok(sum(s))).on('error', no).end(body));
    for (let i = 0; i < 300; i++) console.log(await ask('/', Buffer.alloc(i * 37 % 9000, i)));
    const all = [...Array(40).keys()].map(i => ask(i % 10 ? '/' : '/much', Buffer.alloc(i * 5000, i)));
    for (const said of all) console.log(await said);
    agent.destroy();
})();
"""
GO = """
package main

import (
	"bytes"
	"crypto/md5"
	"fmt"
	"io"
	"net/http"
	"os"
)

func main() {
	at := "127.0.0.1:" + os.Args[2]
	if os.Args[1] == "serves" {
		http.HandleFunc("/", func(w http.ResponseWriter, q *http.Request) {
			b, _ := io.ReadAll(q.Body)
			w.Write(bytes.Repeat(b, 2))
		})
		fmt.Println(http.ListenAndServe(at, nil))
		return
	}
	for i := 0; i < 400; i++ {
		n := i * 41 % 9000
		if i%100 == 99 {
			n = 3000000
		}
		r, err := http.Post("http://"+at+"/", "x", bytes.NewReader(bytes.Repeat([]byte{byte(i)}, n)))
		if err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		b, err := io.ReadAll(r.Body)
		r.Body.Close()
		fmt.Printf("%d %x %v\\n", len(b), md5.Sum(b), err)
	}
}
"""
# A server of one thread: what comes by PUT is the answer to GET.
STORE = """
import http.server, sys
class Store(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    had = {}
    def do_PUT(self):
        self.had[self.path] = self.rfile.read(int(self.headers["Content-Length"]))
        self.answers(b"")
    def do_GET(self):
        self.answers(self.had[self.path])
    def answers(self, body):
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    def log_message(self, *_):
        pass
http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Store).serve_forever()
"""
ASYNCIO = """
import asyncio, hashlib, sys
async def serves(source, to):
    while part := await source.read(3000):
        to.write(part)
        await to.drain()
    to.close()
async def asks(port, i, n):
    source, to = await asyncio.open_connection("127.0.0.1", port)
    had = hashlib.md5()
    for k in range(n):
        part = b"%d " % (i * n + k) * 200
        to.write(part)
        await to.drain()
        had.update(await source.readexactly(len(part)))
    to.write_eof()
    assert not await source.read()
    to.close()
    return had.hexdigest()
async def main():
    port = int(sys.argv[2])
    if sys.argv[1] == "serves":
        await (await asyncio.start_server(serves, "127.0.0.1", port)).serve_forever()
    print(await asks(port, 0, 4000))
    print(await asyncio.gather(*(asks(port, i, 500) for i in range(20))))
asyncio.run(main())
"""
NGINX = """
daemon off; pid nginx.pid; error_log stderr crit; worker_processes 2; events { worker_connections 200; } USER
http { access_log off; client_body_temp_path body; proxy_temp_path proxy; fastcgi_temp_path f; uwsgi_temp_path u; scgi_temp_path s;
  sendfile SENDFILE; keepalive_requests 100000;
  server { listen 127.0.0.1:PORT; root .; location /up/ { proxy_pass http://127.0.0.1:PORT/; proxy_http_version 1.1; proxy_buffering BUFFER; } } }
"""
WEB = """
user=; [ $(id -u) != 0 ] || user='user root;'
sed "s/PORT/$PORT/g; s/USER/$user/; s/SENDFILE/%s/; s/BUFFER/%s/" nginx.in >nginx.conf
nginx -p $PWD/ -c nginx.conf & listens
"""
SMALL = "seq 2000 >small"
KEYS = """
import socket, sys
s = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
f = s.makefile("rb")
def value(i):
    return b"%d " % i * (i % 500 + (100000 if i % 1000 == 999 else 1))
for i in range(3000):
    v = value(i)
    s.sendall(b"set k%d 0 0 %d\\r\\n" % (i % 700, len(v)) + v + b"\\r\\n")
    assert f.readline() == b"STORED\\r\\n"
    s.sendall(b"get k%d k%d\\r\\n" % (i % 700, i // 2 % 700))
    n = 0
    while (line := f.readline()) != b"END\\r\\n":
        _, key, _, length = line.split()
        had = f.read(int(length) + 2)
        last = max(k for k in range(i, -1, -1) if k % 700 == int(key[1:])) if n else i
        assert had == value(last) + b"\\r\\n", (i, key)
        n += 1
s.sendall(b"quit\\r\\n")
assert not f.read()
print("well")
"""
# As each user but root can run it.
POSTGRES = """
bin=$(ls -d /usr/lib/postgresql/*/bin | tail -1)
as() { if [ $(id -u) = 0 ]; then runuser -u postgres -- env BYWAY_CACHE= "$@"; else "$@"; fi; }
rm -rf data; mkdir data; chmod 711 .; [ $(id -u) != 0 ] || chown postgres data
as $bin/initdb -D data -A trust -U job --no-sync >/dev/null
as $bin/postgres -D data -h 127.0.0.1 -p $PORT -k '' -F >log 2>&1 & listens
until psql -qh 127.0.0.1 -p $PORT -U job postgres -c '' 2>/dev/null; do sleep 0.1; done
export PGHOST=127.0.0.1 PGPORT=$PORT PGUSER=job PGDATABASE=postgres
pgbench -qi -s 2 2>/dev/null
pgbench -n -c 4 -j 2 -t 400 --random-seed=7 2>/dev/null | grep -E 'processed|failed'
pgbench -n -S -M prepared -c 4 -t 1000 --random-seed=7 2>/dev/null | grep -E 'processed|failed'
psql -Atc 'select md5(string_agg(aid || filler, $$,$$ order by aid)) from pgbench_accounts'
psql -Atc 'copy (select aid, filler from pgbench_accounts order by aid) to stdout' | md5sum
psql -Atc 'copy (select g, repeat(g::text, 50) from generate_series(1, 50000) g) to stdout' |
  psql -Atc 'create table t(a int, b text)' -c '\\copy t from pstdin' -c 'select count(*), md5(string_agg(b, $$$$ order by a)) from t'
as $bin/pg_ctl -D data -m fast stop >/dev/null; wait; echo "stopped"
"""

# A job, and the connections of it that must carry: the ends of each, in either order. Of the others: java's and node's clients
# connect without waiting in a process of several threads, and Go takes no part.
JOBS = [
    (Program("java", f"{BEGIN}java -Xshare:auto -cp . Http serves $PORT & listens; java -Xshare:auto -cp . Http asks $PORT",
             needs=("javac",), setup="javac Http.java", files={"Http.java": JAVA}), ""),
    (Program("node", f"{BEGIN}node http.js serves $PORT & listens; node http.js asks $PORT", files={"http.js": NODE}), ""),
    (Program("go", f"{BEGIN}./http serves $PORT & listens; ./http asks $PORT", setup="GOCACHE=$PWD/cache GO111MODULE=off go build -o http http.go",
             files={"http.go": GO}), ""),
    (Program("curl", f"""{BEGIN}$PYTHON store.py $PORT & listens
        at=http://127.0.0.1:$PORT; cat file file file >large
        curl -sS --http1.1 -T large $at/a && curl -sS --http1.1 $at/a | cmp - large && echo uploaded
        for i in $(seq 200); do echo "url = $at/a"; echo "range = $i-$((i * 100))"; echo "output = /dev/null"; done >urls
        curl -sS --http1.1 -T file $at/b -o /dev/null --next -sS $at/b -o back --next -sS -T small $at/c --next -sS "$at/c?[1-9]" $at/c; cmp file back && echo back
        rm -f large back""", needs=("$PYTHON", "openssl"), setup=f"{FILE}; {SMALL}", files={"store.py": STORE}), ""),
    (Program("nginx", f"""{BEGIN}{WEB % ("off", "on")}
        for i in 1 2 3; do curl -sS http://127.0.0.1:$PORT/file http://127.0.0.1:$PORT/up/file http://127.0.0.1:$PORT/up/small | md5sum; done
        kill -QUIT $!; wait; echo ended $?""", needs=("curl", "openssl"), setup=f"{FILE}; {SMALL}", files={"nginx.in": NGINX}), ""),
    (Program("nginx, sendfile", f"""{BEGIN}{WEB % ("on", "off")}
        for i in 1 2 3; do curl -sS http://127.0.0.1:$PORT/file http://127.0.0.1:$PORT/up/file http://127.0.0.1:$PORT/up/small | md5sum; done
        kill -QUIT $!; wait; echo ended $?""", command="nginx", needs=("curl", "openssl"), setup=f"{FILE}; {SMALL}",
             files={"nginx.in": NGINX}), ""),
    (Program("ab", f"""{BEGIN}{WEB % ("off", "on")}
        for k in "" -k; do for at in small up/small; do ab -q $k -n 3000 -c 20 http://127.0.0.1:$PORT/$at | grep -E 'Complete|Failed|Non-2xx|HTML tr'; done; done
        kill -QUIT $!; wait; echo ended $?""", version="-V", needs=("nginx", "openssl"), setup=f"{FILE}; {SMALL}", files={"nginx.in": NGINX}), ""),
    (Program("openssl", f"""{BEGIN}openssl s_server -WWW -accept 127.0.0.1:$PORT -cert cert -key key -quiet & listens
        for i in 1 2; do
            printf 'GET /file HTTP/1.0\\r\\n\\r\\n' | openssl s_client -connect 127.0.0.1:$PORT -quiet 2>/dev/null | md5sum
            curl -sSk https://127.0.0.1:$PORT/file | md5sum
        done""", version="version", needs=("curl",),
             setup=f"{FILE}; openssl req -x509 -newkey rsa:2048 -nodes -subj /CN=x -keyout key -out cert 2>/dev/null"), ""),
    (Program("socat", f"""{BEGIN}socat -u TCP4-LISTEN:$PORT,bind=127.0.0.1 - | md5sum &
        socat -u FILE:file TCP4:127.0.0.1:$PORT,retry=200,interval=0.05; wait
        socat TCP4-LISTEN:$PORT,bind=127.0.0.1,reuseaddr EXEC:'tr a-z A-Z' &
        seq 100000 | sed s/^/abc/ | socat -t 30 - TCP4:127.0.0.1:$PORT,retry=200,interval=0.05 | md5sum; wait""",
             version="-V", needs=("openssl",), setup=FILE), "socat-socat"),
    (Program("asyncio", f"{BEGIN}$PYTHON loop.py serves $PORT & listens; $PYTHON loop.py asks $PORT", command="$PYTHON",
             files={"loop.py": ASYNCIO}), "python3-python3"),
    (Program("redis", f"""{BEGIN}redis-server --port $PORT --bind 127.0.0.1 --save '' --appendonly no >/dev/null & listens
        ask() {{ redis-cli -p $PORT "$@"; }}
        redis-benchmark -p $PORT -q -n 20000 -c 20 -d 300 -t set,get,lpush,lrange_100 2>&1 | tr '\\r' '\\n' | grep -ciE 'error|refused'
        redis-benchmark -p $PORT -q -n 20000 -c 5 -P 16 -t set,get >/dev/null; ask dbsize; ask llen mylist
        seq 30000 | sed 's/.*/set k& &&&&&&/' | ask --pipe | tail -1; seq 7 3000 30000 | sed 's/^/get k/' | ask | md5sum
        ask set much $(seq -s, 20000) >/dev/null; ask get much | md5sum; ask shutdown nosave; wait; echo ended""",
             command="redis-server", needs=("redis-cli", "redis-benchmark")), "redis-benchmark-redis-server"),
    (Program("memcached", f"""{BEGIN}user=; [ $(id -u) != 0 ] || user='-u root'
        memcached $user -l 127.0.0.1 -p $PORT -t 2 & listens; $PYTHON keys.py $PORT & $PYTHON keys2.py $PORT; wait %2; kill -TERM %1; wait; echo ended""",
             needs=("$PYTHON",), files={"keys.py": KEYS, "keys2.py": KEYS.replace(" k%d", " j%d")}), ""),
    (Program("postgres", f"{BEGIN}{POSTGRES}", command="pgbench", needs=("psql", "runuser")), ""),
]
# Debian's.
PACKAGES = {"java": "openjdk-17-jdk-headless", "node": "nodejs", "go": "golang-go", "curl": "curl openssl", "nginx": "nginx-light curl openssl",
            "nginx, sendfile": "nginx-light curl openssl", "ab": "apache2-utils nginx-light openssl", "openssl": "openssl curl", "socat": "socat openssl",
            "redis": "redis-server redis-tools", "memcached": "memcached", "postgres": "postgresql postgresql-contrib"}
for job, _ in JOBS:
    job.packages = PACKAGES.get(job.name, "python3")
CARRIED = {job.name: carried.split() for job, carried in JOBS}


if __name__ == "__main__":
    judge = judge_of(CARRIED, lambda c: [f"{c['writer']}-{c['reader']}", f"{c['reader']}-{c['writer']}"], STARTS)
    sys.exit(int(each([job for job, _ in JOBS], sys.argv[2:], judge) > 0))
