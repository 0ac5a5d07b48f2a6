/** What a front needs of a text model. Defined with the engines, which lie below the daemon and cannot import from it. */
export type {
  ChatMessage,
  Encoding,
  Recall,
  TemplateOptions,
  TextEmbedding,
  TextModel,
  TokenDecoder,
} from '../../../engine/backends/llama/text-model.ts'
