package model

import (
	"context"
	"testing"

	"github.com/skeep-project/skeep/go/embedded"
	"github.com/stretchr/testify/require"
)

func TestEmbeddedModelAnswers(t *testing.T) {
	m, err := OpenBytes(context.Background(), "embedded", embedded.Model(), Options{})
	require.NoError(t, err)
	defer func() { require.NoError(t, m.Close()) }()
	var text string
	var last Token
	for token, err := range m.Generate(context.Background(), m.Example(), GenerateOptions{MaxTokens: 40}) {
		require.NoError(t, err)
		text += token.Text
		last = token
	}
	t.Logf("%s%s (%s)", m.Example(), text, last.Stop)
	require.Equal(t, StopEOS, last.Stop)
}
