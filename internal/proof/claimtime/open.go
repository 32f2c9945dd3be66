//go:build !plain

package claimtime

import (
	"github.com/jmoiron/sqlx"

	"github.com/qrtz-go/qrtz/schema"
)

// open opens connections of the engine's own, as a node uses them.
func open(dsn string) (*sqlx.DB, error) {
	link, err := schema.Dial(dsn)
	if err != nil {
		return nil, err
	}
	return link.Pool(4), nil
}
