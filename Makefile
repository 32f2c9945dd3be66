SHELL    := /bin/bash
NODES    ?= 3
FOR      ?= 30s
PKG      ?= ./...
BENCH    ?=
BASE     ?=
PEERS    ?=
ROUNDS   ?= 5
LOADS    ?= 1
DB_DIR   ?= $(CURDIR)/.cache/db
QRTZ_DIR ?= $(or $(XDG_DATA_HOME),$(HOME)/.local/share)/qrtz
LINT_VERSION := v2.15.0
LINT     := $(CURDIR)/.bin/golangci-lint
DBRUN    := go run ./internal/servers/dbrun
DURATION ?= 10m
SEED     ?= 0
SHORT_SEED ?= 1
SAMPLE   ?= 100
JOBS     ?= 2
STEPS    ?= 0
WORKERS  ?= 1
MODEL    := cd internal/proof/model && go run .
TORTURE  := cd internal/proof/torture && go run . --duration $(DURATION) --seed $(SEED)

.DEFAULT_GOAL := help
.PHONY: help demo examples/hello examples/transaction examples/hooks examples/testing examples/orders test race lint fmt bench bench/compare bench/peers torture torture-galera torture-mysql torture-mutations mutations model model/short check tidy vet fmt/check torture/short peers/short db/up db/down database faketime

help: ## this list
	@awk -F ':.*## ' '/^[a-z\/-]+:.*## / {printf "  make %-18s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: database ## see it work on a private database (NODES=3 FOR=30s)
	go run ./cmd/qrtz demo --nodes $(NODES) --for $(FOR)

examples/hello: ## the program of the README on the private database of qrtz (also examples/transaction, hooks, testing, orders)
examples/hello examples/transaction examples/hooks: database
	@go build -o .cache/bin/ ./internal/servers/dbrun ./$@
	@.cache/bin/dbrun in '$(QRTZ_DIR)' -- .cache/bin/$(@F)

examples/orders: database
	@go build -o .cache/bin/ ./internal/servers/dbrun ./$@
	@.cache/bin/dbrun in '$(QRTZ_DIR)' -- .cache/bin/orders -demo

examples/testing: database
	go test -count=1 -v ./$@

test: database ## all tests on one private database server (PKG=./...; QRTZ_TEST_DSN to use another)
	$(DBRUN) -- go test $(PKG)

race: database ## all tests with the race detector
	$(DBRUN) -- go test -race $(PKG)

lint: $(LINT) ## golangci-lint
	$(LINT) run
	cd internal/proof/torture && $(LINT) run
	cd internal/proof/peers && $(LINT) run
	cd internal/proof/model && $(LINT) run

fmt: $(LINT) ## format everything
	$(LINT) fmt

bench: database ## measure: qrtz beside bare SQL, then beside its peers, 40 minutes (BENCH=--quick); cron beside other Go libraries
	go run ./cmd/qrtz bench $(BENCH)
	cd internal/proof/cronbench && go test -run '^$$' -bench . -benchtime 200ms
	@$(MAKE) --no-print-directory bench/peers

bench/compare: database ## measure this state beside an earlier one, in turns (BASE=<commit> ROUNDS=5 LOADS=1)
	@go run ./internal/proof/bench/compare --base '$(BASE)' --rounds $(ROUNDS) --loads $(LOADS)

bench/peers: database ## measure: qrtz beside Quartz, River and asynq, those that are there (PEERS=install; BENCH=--quick: 6 minutes)
	@PEERS='$(PEERS)' internal/proof/peers/ensure-peers.sh
	@go -C internal/proof/peers build -o '$(CURDIR)/.cache/bin/peers' .
	.cache/bin/peers $(BENCH)

torture: database faketime ## a cluster under seeded faults, checked all the while (DURATION=10m SEED=…)
	$(TORTURE)

torture-galera: database faketime ## the same on a Galera cluster of three (installed if need be, when root)
	@internal/servers/ensure-galera.sh
	$(TORTURE) --galera

torture-mysql: faketime ## the same on MySQL 9 (fetched and unpacked, not installed)
	server=$$(internal/servers/get-mysql9.sh) && export QRTZ_MYSQLD=$$server && $(TORTURE)

torture-mutations: database faketime ## does the torture find bugs? take safety mechanisms out of a copy, one by one (SEEDS='11 12 13' JOBS=2)
	@internal/proof/torture/mutate.sh

mutations: database ## do the tests find bugs? change the code in small ways (PKG='run execute poller node misfire cron' SAMPLE=100 SEED=1 JOBS=2)
	go run ./internal/proof/mutants -pkg '$(if $(filter ./...,$(PKG)),run execute poller node misfire cron,$(PKG))' -sample $(SAMPLE) -seed $(or $(filter-out 0,$(SEED)),1) -jobs $(JOBS)

model: database ## random histories, by the engine and by a model of its rules (DURATION=10m STEPS=… SEED=… WORKERS=1)
	$(MODEL) --duration $(if $(filter 0,$(STEPS)),$(DURATION),0) --steps $(STEPS) --seed $(SEED) --workers $(WORKERS)

model/short: database
	cd internal/proof/model && go test ./...
	$(MODEL) --duration 0 --steps 25000 --seed $(SHORT_SEED) --workers 2

torture/short: database faketime
	internal/proof/torture/mutate.sh --check
	cd internal/proof/torture && go test -race ./... && go run . --duration 1m --seed $(SHORT_SEED)

peers/short:
	cd internal/proof/peers && go test -short ./...

check: fmt/check vet lint tidy race model/short torture/short peers/short ## what CI runs

db/up: database ## start a private server to play with, print its DSN
	@$(DBRUN) up $(DB_DIR)

db/down: ## stop it; its data stays in .cache/db
	@$(DBRUN) down $(DB_DIR)

fmt/check: $(LINT)
	$(LINT) fmt --diff

vet:
	go vet ./...
	cd internal/proof/torture && go vet ./...
	cd internal/proof/peers && go vet ./...
	cd internal/proof/model && go vet ./...

tidy:
	go mod tidy -diff
	cd internal/proof/torture && go mod tidy -diff
	cd internal/proof/peers && go mod tidy -diff
	cd internal/proof/model && go mod tidy -diff

database:
	@internal/servers/ensure-database.sh

faketime:
	@internal/servers/ensure-faketime.sh

# Built from source through the Go module proxy, once per version: some minutes.
$(LINT): .bin/golangci-lint-$(LINT_VERSION)
	@ln -sf $(notdir $<) $@

.bin/golangci-lint-$(LINT_VERSION):
	@rm -f $(LINT)
	GOBIN=$(CURDIR)/.bin go install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(LINT_VERSION)
	@mv .bin/golangci-lint $@
