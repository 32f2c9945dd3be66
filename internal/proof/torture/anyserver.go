package main

import (
	"context"
	"database/sql/driver"
	"errors"

	"github.com/go-sql-driver/mysql"
)

// anyServer connects to the first server that is not down.
type anyServer struct{ t *torture }

func (c *anyServer) Connect(ctx context.Context) (driver.Conn, error) {
	err := errors.New("all servers are down")
	for i, dsn := range c.t.dsns {
		if c.t.isDown(i) {
			continue
		}
		var cfg *mysql.Config
		if cfg, err = mysql.ParseDSN(dsn); err != nil {
			return nil, err
		}
		if len(c.t.dsns) > 1 {
			cfg.Params = map[string]string{"wsrep_sync_wait": "7"} // see what any server of the cluster has committed
		}
		connector, e := mysql.NewConnector(cfg)
		if e != nil {
			return nil, e
		}
		var conn driver.Conn
		if conn, err = connector.Connect(ctx); err == nil {
			return conn, nil
		}
	}
	return nil, err
}

func (c *anyServer) Driver() driver.Driver { return mysql.MySQLDriver{} }

func (t *torture) isDown(i int) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.down[i]
}

func (t *torture) setDown(i int, down bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.down[i] = down
}
