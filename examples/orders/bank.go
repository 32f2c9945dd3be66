package main

import (
	"context"
	"database/sql"
	"errors"
	"math/rand/v2"
	"time"
)

// bank charges customers. It is another system: no transaction of the shop's reaches there. Like the real ones it takes a key, and
// charges once for all calls with the same.
type bank interface {
	charge(ctx context.Context, key, customer string, cents int64) error
	charged(ctx context.Context) (cents int64, err error) // in all, by its own books
}

// errDeclined is what a bank says that no further try will change.
var errDeclined = errors.New("the bank declines")

// errNoAnswer leaves open whether the customer was charged.
var errNoAnswer = errors.New("the bank does not answer")

const createBank = `CREATE TABLE IF NOT EXISTS SHOP_BANK (CHARGE_KEY VARCHAR(190) PRIMARY KEY, CENTS BIGINT NOT NULL)`

// badBank stands for one. It has its own books, and one call of five fails, half of them after it has charged.
type badBank struct {
	db   *sql.DB
	slow time.Duration // a call takes up to so long
}

func (b *badBank) charge(ctx context.Context, key, customer string, cents int64) error {
	if customer == "Mallory" {
		return errDeclined
	}
	luck := rand.IntN(10)
	if luck == 0 {
		return errNoAnswer
	}
	select {
	case <-time.After(rand.N(b.slow + 1)):
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	_, err := b.db.ExecContext(ctx, `INSERT IGNORE INTO SHOP_BANK VALUES (?, ?)`, key, cents)
	if err == nil && luck == 1 {
		return errNoAnswer
	}
	return err
}

func (b *badBank) charged(ctx context.Context) (cents int64, err error) {
	err = b.db.QueryRowContext(ctx, `SELECT COALESCE(SUM(CENTS), 0) FROM SHOP_BANK`).Scan(&cents)
	return cents, err
}
