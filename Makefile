SHELL    := /bin/bash
NODES    ?= 3
FOR      ?= 30s
PKG      ?= ./...
BENCH    ?=
DB_DIR   ?= $(CURDIR)/.cache/db
LINT_VERSION := v2.15.0
LINT     := $(CURDIR)/.bin/golangci-lint
DBRUN    := go run ./internal/dbrun

.DEFAULT_GOAL := help
.PHONY: help demo test race lint fmt bench check tidy vet fmt/check db/up db/down database

help: ## this list
	@awk -F ':.*## ' '/^[a-z\/]+:.*## / {printf "  make %-9s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: database ## see it work on a private database (NODES=3 FOR=30s)
	go run ./cmd/qrtz demo --nodes $(NODES) --for $(FOR)

test: database ## all tests on one private database server (PKG=./...; QRTZ_TEST_DSN to use another)
	$(DBRUN) -- go test $(PKG)

race: database ## all tests with the race detector
	$(DBRUN) -- go test -race $(PKG)

lint: $(LINT) ## golangci-lint
	$(LINT) run

fmt: $(LINT) ## format everything
	$(LINT) fmt

bench: database ## measure: qrtz beside bare SQL, a quarter of an hour (BENCH=--quick); cron beside other Go libraries
	go run ./cmd/qrtz bench $(BENCH)
	cd internal/cronbench && go test -run '^$$' -bench . -benchtime 200ms

check: fmt/check vet lint tidy race ## what CI runs

db/up: database ## start a private server to play with, print its DSN
	@$(DBRUN) up $(DB_DIR)

db/down: ## stop it; its data stays in .cache/db
	@$(DBRUN) down $(DB_DIR)

fmt/check: $(LINT)
	$(LINT) fmt --diff

vet:
	go vet ./...

tidy:
	go mod tidy -diff

database:
	@internal/ensure-database.sh

# Built from source through the Go module proxy, once per version: some minutes.
$(LINT): .bin/golangci-lint-$(LINT_VERSION)
	@ln -sf $(notdir $<) $@

.bin/golangci-lint-$(LINT_VERSION):
	@rm -f $(LINT)
	GOBIN=$(CURDIR)/.bin go install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(LINT_VERSION)
	@mv .bin/golangci-lint $@
