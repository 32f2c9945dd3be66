// A module of its own, so that what it needs stays out of the go.mod of those who embed qrtz.
module github.com/qrtz-go/qrtz/internal/proof/model

go 1.25

replace github.com/qrtz-go/qrtz => ../../..

require (
	github.com/go-sql-driver/mysql v1.10.1
	github.com/qrtz-go/qrtz v0.0.0-00010101000000-000000000000
	github.com/rs/zerolog v1.35.1
)

require (
	github.com/stretchr/testify v1.12.1
	go.yaml.in/yaml/v3 v3.0.5 // indirect
)

require (
	filippo.io/edwards25519 v1.2.0 // indirect
	github.com/gofrs/flock v0.12.1 // indirect
	github.com/jmoiron/sqlx v1.4.0 // indirect
	github.com/mattn/go-colorable v0.1.14 // indirect
	github.com/mattn/go-isatty v0.0.20 // indirect
	golang.org/x/sys v0.35.0 // indirect
	pgregory.net/rapid v1.3.0
)
