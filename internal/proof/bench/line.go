package bench

import (
	"errors"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"sync"
	"time"

	"github.com/go-sql-driver/mysql"
)

// line is a way to the server that takes its time: a socket that passes everything on, each way half a delay later.
// It listens beside the server's own socket, where no other machine can reach it.
type line struct {
	listener net.Listener
	upstream string        // the server's socket
	oneWay   time.Duration // half the delay
	open     sync.WaitGroup
}

// distant opens a line to the server with so much delay there and back, and returns the DSN of a database by it.
func (s *site) distant(dsn string, delay time.Duration) (*line, string, error) {
	cfg, err := mysql.ParseDSN(dsn)
	if err != nil {
		return nil, "", err
	}
	d := &line{upstream: cfg.Addr, oneWay: delay / 2}
	s.count++
	cfg.Addr = filepath.Join(filepath.Dir(cfg.Addr), fmt.Sprintf("d%d.sock", s.count))
	if d.listener, err = net.Listen("unix", cfg.Addr); err != nil { //nolint:noctx // it is closed
		return nil, "", err
	}
	d.open.Go(d.serve)
	return d, cfg.FormatDSN(), nil
}

// close refuses new connections and waits until the others have been closed by who made them.
func (d *line) close() error {
	err := d.listener.Close()
	d.open.Wait()
	return err
}

func (d *line) serve() {
	for {
		near, err := d.listener.Accept()
		if err != nil {
			return // closed
		}
		far, err := net.Dial("unix", d.upstream) //nolint:noctx // a socket beside ours
		if err != nil {
			_ = near.Close()
			continue
		}
		d.open.Go(func() { d.pass(near, far) })
		d.open.Go(func() { d.pass(far, near) })
	}
}

// chunk is what was read at once, and when it may arrive.
type chunk struct {
	data []byte
	at   time.Time
	err  error // the last one's
}

// pass passes on what comes from one side, until either ends; then it closes both.
func (d *line) pass(from io.ReadCloser, to io.WriteCloser) {
	under := make(chan chunk, 1000)
	ended := make(chan struct{})
	go func() {
		for {
			data := make([]byte, 64<<10)
			n, err := from.Read(data)
			select {
			case under <- chunk{data[:n], time.Now().Add(d.oneWay), err}:
			case <-ended:
				return
			}
			if err != nil {
				return
			}
		}
	}()
	for {
		c := <-under
		pause(time.Until(c.at))
		if _, err := to.Write(c.data); errors.Join(err, c.err) != nil {
			break
		}
	}
	close(ended)
	_ = errors.Join(from.Close(), to.Close()) // the other direction may have closed them
}
