package claimtime

import (
	"github.com/go-sql-driver/mysql"
	"github.com/jmoiron/sqlx"
)

// open opens a pool as the store of a node uses it.
func open(dsn string) (*sqlx.DB, error) {
	cfg, err := mysql.ParseDSN(dsn)
	if err != nil {
		return nil, err
	}
	cfg.InterpolateParams = true
	db, err := sqlx.Open("mysql", cfg.FormatDSN())
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(4)
	db.SetMaxIdleConns(4)
	return db, nil
}
