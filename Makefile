# nfsrdmad: see README.md. People and CI use the same targets.
GO      ?= go
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)
LDFLAGS := -X main.version=$(VERSION)
# FUZZTIME is the time for each fuzz target. Each uses all processors.
FUZZTIME ?= 30s
STATICCHECK := honnef.co/go/tools/cmd/staticcheck@v0.8.2

.PHONY: build install install-files deb rpm dist image run test test-all test-unit test-interop test-hostile test-kernel test-newest soak mutants fuzz bench lint clean setup

# make build builds a static program without cgo, which runs on every Linux distribution and needs
# no C compiler. With VERBS=1 it builds bin/nfsrdmad-verbs, which can also use RDMA devices. That
# needs gcc and the headers of libibverbs-dev and librdmacm-dev. The program opens these libraries
# when it runs, if they are installed.
OUTPUT ?= bin/nfsrdmad$(if $(VERBS),-verbs)
ifdef VERBS
build:
	CGO_ENABLED=1 $(GO) build -trimpath -tags verbs,netgo,osusergo -ldflags '$(LDFLAGS)' -o $(OUTPUT) ./cmd/nfsrdmad
else
build:
	CGO_ENABLED=0 $(GO) build -trimpath -ldflags '$(LDFLAGS)' -o $(OUTPUT) ./cmd/nfsrdmad
endif

# make image builds a container image: docs/containers.md. ENGINE is podman, docker or buildah.
ENGINE ?= podman
IMAGE := nfsrdmad$(if $(VERBS),-verbs)
image: build
	@mkdir -p bin/empty
	$(ENGINE) build -f Containerfile$(if $(VERBS),.verbs) -t $(IMAGE) $(IMAGE_FLAGS) bin

# make run maps all clients to the owner of ./export, so that the first write works.
LOCAL_CLIENTS := 127.0.0.0/8;10.0.0.0/8;172.16.0.0/12;192.168.0.0/16;169.254.0.0/16;::1/128;fc00::/7;fe80::/10
run: build
	@mkdir -p export
	@exec bin/nfsrdmad serve --show-mounts --state-dir .state --rdma :20049 --tcp :2049 \
		--export "./export:/export,rw,insecure,all_squash,anonuid=$$(stat -c %u export),anongid=$$(stat -c %g export),clients=$(LOCAL_CLIENTS)"

# make test tests each mechanism once, in the cheapest setting that shows it.
test: setup build lint test-unit test-interop test-hostile test-kernel

# make test-all tests each kind of work over each transport and on each kernel. It also runs the
# mutants, which break rules on purpose.
test-all:
	$(GO) run ./test/kernel/setup packages uml-7.2 images
	NFSRDMAD_TEST_ALL=1 $(MAKE) test test-newest mutants KERNEL_TIME=3h
	CGO_ENABLED=1 $(GO) test -asan -tags verbs -timeout 15m ./rdmacm/verbs/shim
	$(GO) test -tags interop -count 1 -timeout 20m ./test/install
	$(GO) test -tags hostile -count 1 -timeout 20m -run TestDisk ./test/disk -server knfsd -faults 12
	$(GO) test -tags hostile -count 1 -timeout 1h ./test/restarts -restarts 200

# make setup installs Debian packages, and the lab's kernels and systemd. It is needed once for each
# machine.
setup:
	@command -v apt-get >/dev/null || { echo "make test sets up its Debian packages and test kernels with apt-get, which this machine does not have: use Debian 12, or run 'make test-unit', which needs only Go and gcc" >&2; exit 1; }
	$(GO) run ./test/kernel/setup packages uml 6.1 6.12 systemd-254

# The time limit of a package is ten minutes, many times what it needs, so that a test that hangs
# ends soon. The packages in SLOW, with daemons and real file systems, have a longer limit. They
# mostly wait, for disks and time-outs, so the other packages run at the same time.
SLOW := ./server ./vfs/local ./test/hostileservers
# Under the race detector a sync.Pool drops items at random, so the tests that count allocations run
# without it.
test-unit:
	$(GO) test -run 'Allocate' ./ulb/nfs ./ulb/nfs/nfs3 ./ulb/nfs/nfs4 ./ulb/nfs/nfs41
	$(GO) test -race -timeout 25m -parallel 6 $(SLOW) & slow=$$!; \
	$(GO) test -race -timeout 10m $$($(GO) list ./... | grep -vE '/test/(kernel|interop|rss|bench)(/|$$)|/(server|vfs/local|test/hostileservers)$$'); fast=$$?; \
	wait $$slow && exit $$fast

# Clients and servers of other projects, on loopback.
test-interop: build
	$(GO) test -tags interop -timeout 15m ./test/interop/... ./test/krb5realm ./test/rss/...
	$(GO) test -tags interop -timeout 15m -run 'TestDaemon|/daemon$$' ./ulb/nfs/nfs40 ./test/nfs4suite

# On loopback: hostile peers against the running daemon (test/hostile/doc.go), disks that fail
# under it (test/disk/doc.go), and restarts after it was killed (test/restarts/doc.go).
test-hostile:
	$(GO) test -tags hostile -count 1 -timeout 20m ./test/hostile ./test/disk ./test/restarts

# One daemon, built with the race detector, runs for the time FOR while all of these faults
# happen: test/soak/doc.go.
FOR ?= 2h
soak:
	$(GO) test -tags soak -count 1 -timeout 0 -v ./test/soak -for $(FOR)

# A Linux kernel client, in user mode and under emulation. The tests run in parallel, because
# guests that wait for a lease to end or for a server to return use no processor. After 22 minutes
# on two processors, a third of the full matrix was done, so test-all has a longer time limit.
KERNEL_TIME ?= 48m
# rdmacm/verbs/shim is tested with libraries of its own, without a kernel.
test-kernel: build
	CGO_ENABLED=1 $(GO) test -tags verbs -timeout 5m ./rdmacm/verbs/shim
	$(GO) test -tags kernel -timeout $(KERNEL_TIME) -parallel 4 -v ./test/kernel
	$(GO) test -tags kernel -timeout 10m ./test/kernel/rping ./test/kernel/lab ./test/kernel/worker

# The same tests with Linux 7.2, without those that test-kernel has run with it, and those that need
# Debian's kernels. setup does not compile this kernel: go run ./test/kernel/setup uml-7.2.
test-newest: build
	NFSRDMAD_LAB_KERNEL=uml-7.2 $(GO) test -tags kernel -timeout $(KERNEL_TIME) -parallel 4 -skip 'OneFile|SparseFiles|NewestKernel' -v ./test/kernel

# make mutants breaks rules on purpose, one at a time: the tests named for a rule must fail. It
# takes more than an hour. MUTANTS='V1-54|mem' runs only the mutants whose description matches.
MUTANTS ?= .
mutants:
	$(GO) run ./test/mutants -run '$(MUTANTS)'

fuzz:
	@for p in $$($(GO) list ./...); do \
		for f in $$($(GO) test -list '^Fuzz' $$p 2>/dev/null | grep ^Fuzz); do \
			echo "== $$p $$f"; $(GO) test -run '^$$' -fuzz "^$$f\$$" -fuzztime $(FUZZTIME) $$p || exit 1; \
		done; done

# make bench compares the data path with bare Go programs, the daemon with other servers over TCP,
# and both with other servers in a Linux client: docs/benchmarks.md.
bench: build
	$(GO) run ./test/figures
	$(GO) test -run '^$$' -bench '^BenchmarkVersions$$' ./transport/rdma
	$(GO) run ./test/bench
	$(GO) run ./test/kernel/setup packages uml
	$(GO) test -tags bench -timeout 60m -run 'PeersBenchmark|RDMAVersionsBenchmark' -v ./test/kernel

# The packages that build on other systems than Linux: docs/embedding.md.
PORTABLE = ./mem ./rpc/... ./rdmacm ./transport/rdma ./vfs ./ulb/nfs/nfs3wire ./ulb/nfs/nfs4wire

lint:
	@test -z "$$(gofmt -l .)" || { echo "gofmt would change:"; gofmt -l .; exit 1; }
	$(GO) vet ./...
	$(GO) vet -tags hostile,soak,interop,kernel,bench ./...
	CGO_ENABLED=1 $(GO) vet -tags verbs ./rdmacm/verbs/... ./server ./cmd/nfsrdmad
	GOARCH=386 CGO_ENABLED=0 $(GO) build ./rdmacm/... ./transport/... ./rpc/...
	GOARCH=arm64 CGO_ENABLED=0 $(GO) build ./...
	GOOS=darwin CGO_ENABLED=0 $(GO) build $(PORTABLE)
	GOOS=freebsd CGO_ENABLED=0 $(GO) build $(PORTABLE)
	$(GO) run $(STATICCHECK) -tags hostile,soak,interop,kernel,bench ./...
	CGO_ENABLED=1 $(GO) run $(STATICCHECK) -tags verbs ./rdmacm/verbs/... ./server

clean:
	rm -rf bin

# make install builds the program, and installs it below DESTDIR with the units of systemd, the user of the
# service, completions for bash, zsh and fish, the manual pages, the guide with the sample configuration and the rules
# and the dashboard for Prometheus and Grafana, and the service of firewalld. If
# there is no configuration, it installs the sample as the configuration. The guide is in one directory; its links lead
# to files there, or to web pages. The service runs /usr/bin/nfsrdmad, so PREFIX is /usr.
PREFIX  := /usr
PROGRAM := $(OUTPUT)
HOST    := $(PROGRAM)
SHARE   := $(DESTDIR)$(PREFIX)/share
install: build
	@$(MAKE) --no-print-directory install-files

# make install-files installs PROGRAM, which is built. HOST is the same program for this machine: it writes
# the completions and the manual pages.
install-files:
	install -D -m 755 $(PROGRAM) $(DESTDIR)$(PREFIX)/bin/nfsrdmad
	install -D -m 644 -t $(DESTDIR)$(PREFIX)/lib/systemd/system systemd/nfsrdmad.service systemd/nfsrdmad.socket
	install -D -m 644 systemd/sysusers.conf $(DESTDIR)$(PREFIX)/lib/sysusers.d/nfsrdmad.conf
	install -D -m 644 packaging/firewalld.xml $(DESTDIR)$(PREFIX)/lib/firewalld/services/nfsrdmad.xml
	install -d $(SHARE)/bash-completion/completions $(SHARE)/zsh/site-functions $(SHARE)/fish/vendor_completions.d
	$(HOST) completion bash >$(SHARE)/bash-completion/completions/nfsrdmad
	$(HOST) completion zsh >$(SHARE)/zsh/site-functions/_nfsrdmad
	$(HOST) completion fish >$(SHARE)/fish/vendor_completions.d/nfsrdmad.fish
	$(HOST) manpages $(SHARE)/man
	find $(SHARE)/man -name 'nfsrdmad*.[158]' -exec gzip -9nf {} +
	install -D -m 644 -t $(SHARE)/doc/nfsrdmad README.md CHANGELOG.md docs/*.md configs/prometheus-rules.yml configs/grafana-dashboard.json configs/nfsrdmad.toml
	sed -i -e 's,](docs/,](,g' -e 's,](\.\./CHANGELOG,](CHANGELOG,g' -e 's,](\.\./configs/,](,g' -e 's,](internals/,](https://github.com/nfsrdmad/nfsrdmad/blob/HEAD/docs/internals/,g' $(SHARE)/doc/nfsrdmad/*.md
	test -e $(DESTDIR)/etc/nfsrdmad/nfsrdmad.toml || install -D -m 644 configs/nfsrdmad.toml $(DESTDIR)/etc/nfsrdmad/nfsrdmad.toml

# make deb and make rpm build the packages in bin/packages: packaging/package.sh. make dist also builds the
# programs alone, with an SBOM and checksums, in bin/dist: packaging/dist.sh.
deb rpm:
	rm -f bin/packages/nfsrdmad*.$@
	OUT=bin/packages GO=$(GO) packaging/package.sh $@
dist:
	OUT=bin/dist GO=$(GO) packaging/dist.sh
