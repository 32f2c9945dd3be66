package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	toxiproxy "github.com/Shopify/toxiproxy/v2"
	"github.com/rs/zerolog"
)

// line is the connection of one worker to the database, through a proxy of its own.
type line struct {
	trouble
	proxy *toxiproxy.Proxy
}

func newLine(name, upstream string) (*line, error) {
	registerToxics()
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	server := toxiproxy.NewServer(toxiproxy.NewMetricsContainer(nil), zerolog.Nop())
	l := &line{proxy: toxiproxy.NewProxy(server, name, fmt.Sprintf("127.0.0.1:%d", port), upstream)}
	if err := l.proxy.Start(); err != nil {
		return nil, fmt.Errorf("proxy of %s: %w", name, err)
	}
	return l, nil
}

// addr is where the worker connects to. It stays the same.
func (l *line) addr() string { return l.proxy.Listen }

// cut ends every connection and refuses new ones, until join.
func (l *line) cut() { l.proxy.Stop() }

func (l *line) join() error { return l.proxy.Start() }

// lead has new connections go elsewhere, and ends the others.
func (l *line) lead(upstream string) error {
	return l.proxy.Update(&toxiproxy.Proxy{Listen: l.proxy.Listen, Upstream: upstream, Enabled: true})
}

// toxic is something that is wrong with a line; see the documentation of toxiproxy.
type toxic struct {
	Name       string         `json:"name"`
	Type       string         `json:"type"`
	Stream     string         `json:"stream"`
	Attributes map[string]int `json:"attributes"`
}

func (l *line) poison(t toxic) error {
	text, err := json.Marshal(t)
	if err != nil {
		return err
	}
	_, err = l.proxy.Toxics.AddToxicJson(strings.NewReader(string(text)))
	return err
}

func (l *line) heal(ctx context.Context, t toxic) error {
	return l.proxy.Toxics.RemoveToxic(ctx, t.Name)
}
