/** Two readings of service ... */
export type ServiceReading = 'wall' | 'modelled'
