package schema

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/jmoiron/sqlx"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/qrtz-go/qrtz/internal/servers/testdb"
)

// links are pools of the engine's own, of each kind.
func links(t *testing.T, dsn string) map[string]*sqlx.DB {
	t.Helper()
	dial, err := Dial(dsn)
	require.NoError(t, err)
	lend, err := sql.Open("mysql", dsn)
	require.NoError(t, err)
	several, err := sql.Open("mysql", dsn+"&multiStatements=true")
	require.NoError(t, err)
	pools := map[string]*sqlx.DB{"dialled": dial.Pool(2), "borrowed": Borrow(lend).Pool(2), "borrowed, several statements": Borrow(several).Pool(2)}
	t.Cleanup(func() {
		for _, p := range pools {
			_ = p.Close() // of a connection that the server has closed it is an error
		}
		assert.Zero(t, lend.Stats().OpenConnections, "what was lent has been closed")
		require.NoError(t, lend.Close())
		require.NoError(t, several.Close())
	})
	return pools
}

func TestAPacketIsOneTransaction(t *testing.T) {
	dsn := testdb.DSN(t)
	for name, db := range links(t, dsn) {
		t.Run(name, func(t *testing.T) {
			_, err := db.ExecContext(t.Context(), `CREATE OR REPLACE TABLE T (ID INT PRIMARY KEY, V VARCHAR(20))`)
			if err != nil { // MySQL
				_, err = db.ExecContext(t.Context(), `DROP TABLE IF EXISTS T`)
				require.NoError(t, err)
				_, err = db.ExecContext(t.Context(), `CREATE TABLE T (ID INT PRIMARY KEY, V VARCHAR(20))`)
			}
			require.NoError(t, err)
			type row struct {
				ID int    `db:"ID"`
				V  string `db:"V"`
			}
			var within, after []row
			var count int
			require.NoError(t, InPacket(t.Context(), db, func(p *Packet) error {
				within, after = nil, nil
				p.Exec(`INSERT INTO T VALUES (?, ?), (2, 'x')`, 1, "it's; \\ \U0001F600")
				p.Select(func(r *sqlx.Rows) error {
					var one row
					err := r.StructScan(&one)
					within = append(within, one)
					return err
				}, `SELECT ID, V FROM T WHERE ID < ? ORDER BY ID`, 10)
				p.Exec(`UPDATE T SET V = 'y' WHERE ID = ?`, 2)
				p.Then(func(r *sqlx.Rows) error {
					var one row
					err := r.StructScan(&one)
					after = append(after, one)
					return err
				}, `SELECT V, ID FROM T WHERE ID = 2`)
				p.Then(func(r *sqlx.Rows) error { return r.Scan(&count) }, `SELECT COUNT(*) FROM T`)
				return nil
			}))
			assert.Equal(t, []row{{1, "it's; \\ \U0001F600"}, {2, "x"}}, within)
			assert.Equal(t, []row{{2, "y"}}, after)
			assert.Equal(t, 2, count)

			err = InPacket(t.Context(), db, func(p *Packet) error {
				p.Exec(`INSERT INTO T VALUES (3, '')`)
				p.Exec(`INSERT INTO T VALUES (1, '')`)
				return nil
			})
			assert.True(t, Duplicate(err), "%v", err)
			assert.True(t, RowFault(err))
			assert.NotErrorIs(t, err, ErrCommitUnknown)
			require.NoError(t, db.GetContext(t.Context(), &count, `SELECT COUNT(*) FROM T`))
			assert.Equal(t, 2, count, "nothing of it is left")
		})
	}
}

func TestAnOwnSessionIsAsItMustBe(t *testing.T) {
	dsn := testdb.DSN(t) + "&charset=latin1&time_zone=%27-08%3A00%27&sql_mode=%27ANSI_QUOTES%27&sql_safe_updates=1"
	for name, db := range links(t, dsn) {
		t.Run(name, func(t *testing.T) {
			var s struct {
				Client string `db:"C"`
				Zone   string `db:"Z"`
				Mode   string `db:"M"`
				Safe   bool   `db:"S"`
				Wait   int    `db:"W"`
			}
			require.NoError(t, db.GetContext(t.Context(), &s, `SELECT @@character_set_client AS C, @@time_zone AS Z, @@sql_mode AS M,
				@@sql_safe_updates AS S, @@innodb_lock_wait_timeout AS W`))
			assert.Equal(t, "utf8mb4", s.Client)
			assert.Equal(t, "+00:00", s.Zone)
			assert.NotContains(t, s.Mode, "ANSI")
			assert.Contains(t, s.Mode, "STRICT_TRANS_TABLES")
			assert.False(t, s.Safe)
			assert.Equal(t, 1, s.Wait)
		})
	}
}

func TestACharsetInWhichAQuoteCanHideIsRefused(t *testing.T) {
	db, err := sql.Open("mysql", testdb.DSN(t)+"&charset=gbk")
	require.NoError(t, err)
	defer func() { _ = db.Close() }()
	pool := Borrow(db).Pool(1)
	defer func() { _ = pool.Close() }()
	assert.ErrorContains(t, pool.PingContext(t.Context()), "character_set_client is gbk")
}

// What a client leaves open when it stops talking is ended by the server within two seconds.
func TestTheServerEndsATransactionThatIsLeftIdle(t *testing.T) {
	dsn := testdb.DSN(t)
	watcher, err := sqlx.Open("mysql", dsn)
	require.NoError(t, err)
	defer func() { _ = watcher.Close() }()
	for _, q := range []string{`CREATE TABLE T (ID INT PRIMARY KEY, V INT)`, `INSERT INTO T VALUES (1, 0)`} {
		_, err := watcher.ExecContext(t.Context(), q)
		require.NoError(t, err)
	}
	for name, db := range links(t, dsn) {
		t.Run(name, func(t *testing.T) {
			conn, err := db.Connx(t.Context())
			require.NoError(t, err)
			defer func() { _ = conn.Close() }()
			require.NoError(t, conn.Raw(func(raw any) error {
				begin, _ := raw.(linked).idleLimit()
				if begin == "" {
					begin = `DO 0`
				}
				_, err := raw.(*link).ExecContext(t.Context(), begin, nil)
				return err
			}))
			for _, q := range []string{`BEGIN`, `UPDATE T SET V = V + 1`} {
				_, err := conn.ExecContext(t.Context(), q)
				require.NoError(t, err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 4*time.Second)
			defer cancel()
			began := time.Now()
			_, err = watcher.ExecContext(ctx, `UPDATE T SET V = 10`)
			require.NoError(t, err)
			assert.Less(t, time.Since(began), 3*time.Second)
		})
	}
}

// hole is a line that dies when a text is sent through it: what is sent from then on gets no answer.
type hole struct {
	net.Conn
	at     *atomic.Value // string
	once   sync.Once
	closed chan struct{}
}

func (h *hole) Write(b []byte) (int, error) {
	if at := h.at.Load().(string); at != "" && (bytes.HasSuffix(b, []byte(at)) || bytes.Contains(b, []byte(at+";"))) {
		return len(b), nil
	}
	return h.Conn.Write(b)
}

func (h *hole) Read(b []byte) (int, error) {
	n, err := h.Conn.Read(b)
	if err != nil && h.at.Load() != "" {
		<-h.closed // the server has ended the session, but this process does not learn it
	}
	return n, err
}

func (h *hole) Close() error {
	h.once.Do(func() { close(h.closed) })
	return h.Conn.Close()
}

func (h *hole) SetDeadline(t time.Time) error { return nil }

func TestADeadLineIsGivenUpWhenTheContextEnds(t *testing.T) {
	cfg, err := mysql.ParseDSN(testdb.DSN(t))
	require.NoError(t, err)
	var at atomic.Value
	at.Store("")
	network := cfg.Net
	mysql.RegisterDialContext("hole", func(ctx context.Context, addr string) (net.Conn, error) {
		var d net.Dialer
		conn, err := d.DialContext(ctx, network, addr)
		return &hole{Conn: conn, at: &at, closed: make(chan struct{})}, err
	})
	cfg.Net = "hole"
	for name, db := range links(t, cfg.FormatDSN()) {
		for _, statement := range []string{"COMMIT", "ROLLBACK"} {
			t.Run(name+", "+statement, func(t *testing.T) {
				require.NoError(t, db.PingContext(t.Context()))
				defer at.Store("")
				at.Store(statement)
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				ended := make(chan error, 1)
				go func() {
					ended <- InPacket(ctx, db, func(p *Packet) error {
						if p.Exec(`DO 1`); statement == "ROLLBACK" {
							p.Exec(`UPDATE NOWHERE SET V = 1`)
						}
						return nil
					})
				}()
				select {
				case err := <-ended:
					assert.Equal(t, statement == "COMMIT", errors.Is(err, ErrCommitUnknown), "%v", err)
				case <-time.After(6 * time.Second):
					t.Fatal("it still waits for an answer")
				}
			})
		}
	}
}
